package local_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/deploy/local"
)

func TestMain(m *testing.M) {
	local.RunChildIfAsked()
	os.Exit(m.Run())
}

func TestStartStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	for i := range 3 {
		began := time.Now()
		e, err := local.Start(ctx, local.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d started in %s on %s %s", i, time.Since(began), e.Addr, e.NATSURL)
		began = time.Now()
		if err := e.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped in %s", time.Since(began))
	}
}
