//go:build !dcgm

package dcgmhost

import (
	"strings"
	"testing"
)

// A binary without DCGM says so when the configuration is read.
func TestRefusedWithoutTheTag(t *testing.T) {
	t.Parallel()
	f := Factory()
	con, err := f.New("gpus", f.NewConfig())
	if con != nil || err == nil || !strings.Contains(err.Error(), "source gpus: built without DCGM: use dcgm-exporter") || !strings.Contains(err.Error(), "-tags dcgm") {
		t.Errorf("%v, %v", con, err)
	}
}
