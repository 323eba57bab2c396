//go:build !dcgm

package dcgmhost

import "errors"

// open refuses: this binary has no DCGM in it.
func open(Config) (Engine, error) {
	return nil, errors.New("built without DCGM: use dcgm-exporter (type dcgm), or build with -tags dcgm")
}
