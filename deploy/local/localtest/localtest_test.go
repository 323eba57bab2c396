package localtest_test

import (
	"testing"

	"github.com/idlewatt/idlewatt/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func TestEnginesAreSharedOrFresh(t *testing.T) {
	t.Parallel()
	shared := localtest.Start(t)
	if localtest.Start(t) != shared {
		t.Error("two calls of Start gave two pairs")
	}
	fresh := localtest.Fresh(t)
	if fresh.Addr == shared.Addr || fresh.Layout.Root == shared.Layout.Root {
		t.Error("Fresh gave the shared pair")
	}
	for _, engines := range []interface{ Err() <-chan error }{shared, fresh} {
		select {
		case err := <-engines.Err():
			t.Errorf("a running pair reports %v", err)
		default:
		}
	}
}

func TestName(t *testing.T) {
	t.Run("with space, dot.", func(t *testing.T) {
		if got := localtest.Name(t); got != "TestName_with_space__dot_" {
			t.Errorf("got %s", got)
		}
	})
}
