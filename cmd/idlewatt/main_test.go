package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/deploy/local/localtest"
)

// The test binary is three programs: the tests, the command under test, and the engine that
// the command starts as a child of itself.
func TestMain(m *testing.M) {
	local.RunChildIfAsked()
	localtest.QuickExit()
	testscript.Main(m, map[string]func(){
		"idlewatt": func() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}
