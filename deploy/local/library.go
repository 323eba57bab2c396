package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// LibraryEnv names the library's file, or the directory it is in, and ends the search.
	LibraryEnv  = "CHDB_LIB_PATH"
	libraryFile = "libchdb.so"
)

// ErrNoLibrary is in the chain of FindLibrary's error when the library is nowhere.
var ErrNoLibrary = errors.New("the ClickHouse library " + libraryFile + " is missing: run `make setup`")

// FindLibrary returns the absolute path of libchdb.so, from the places the package comment lists, in that
// order. Its error names every place it looked at and the command that installs the library.
func FindLibrary() (string, error) {
	if named := os.Getenv(LibraryEnv); named != "" {
		for _, path := range []string{named, filepath.Join(named, libraryFile), filepath.Join(packageDir(named), libraryFile)} {
			if isFile(path) {
				return filepath.Abs(path)
			}
		}
		return "", fmt.Errorf("%w, or correct %s, which names %s", ErrNoLibrary, LibraryEnv, named)
	}
	places := libraryPlaces()
	for _, path := range places {
		if isFile(path) {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%w, or set %s; looked at:\n  %s", ErrNoLibrary, LibraryEnv, strings.Join(places, "\n  "))
}

// libraryPlaces lists the candidates in order, each once.
func libraryPlaces() []string {
	var places []string
	exe := executableDir()
	if exe != "" {
		places = append(places, filepath.Join(exe, libraryFile), filepath.Join(filepath.Dir(exe), "lib", libraryFile))
	}
	if data := userDataDir(); data != "" {
		places = append(places, filepath.Join(data, "idlewatt", "lib", libraryFile))
	}
	checkouts := make(map[string]bool)
	cwd, _ := os.Getwd()
	for _, start := range []string{cwd, exe} {
		root := checkoutOf(start)
		if root == "" || checkouts[root] {
			continue
		}
		checkouts[root] = true
		places = append(places, filepath.Join(packageDir(filepath.Join(root, "deploy", "local")), libraryFile))
	}
	return places
}

// packageDir is where npm puts the library's package for this platform under dir.
func packageDir(dir string) string {
	platform := runtime.GOOS
	switch runtime.GOOS + "/" + runtime.GOARCH {
	case "linux/amd64":
		platform = "linux-x64-gnu"
	case "linux/arm64":
		platform = "linux-arm64-gnu"
	case "darwin/amd64":
		platform = "darwin-x64"
	case "darwin/arm64":
		platform = "darwin-arm64"
	}
	return filepath.Join(dir, "node_modules", "@chdb", "lib-"+platform)
}

// executableDir is the directory of the running binary, links resolved, or "".
func executableDir() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(exe); err == nil {
		exe = resolved
	}
	return filepath.Dir(exe)
}

// userDataDir follows the XDG base directory rule on every platform, as setup.sh does.
func userDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share")
}

// checkoutOf returns the nearest directory at or above dir that holds our package.json, or "".
func checkoutOf(dir string) string {
	for dir != "" {
		if isFile(filepath.Join(dir, "deploy", "local", "package.json")) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
