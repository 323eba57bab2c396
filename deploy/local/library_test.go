package local_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/idlewatt/idlewatt/deploy/local"
)

// touch makes an empty file and its directories.
func touch(t *testing.T, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nowhere sets up an environment in which no library can be found, and returns the home directory. Not for
// parallel tests: environment and working directory belong to the process.
func nowhere(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv(local.LibraryEnv, "")
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	t.Chdir(t.TempDir())
	return home
}

func TestFindLibraryNamesWhereItLooked(t *testing.T) {
	home := nowhere(t)
	_, err := local.FindLibrary()
	if !errors.Is(err, local.ErrNoLibrary) {
		t.Fatalf("got %v, want ErrNoLibrary", err)
	}
	for _, want := range []string{"make setup", local.LibraryEnv, filepath.Join(home, ".local/share/idlewatt/lib/libchdb.so")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := local.Start(timed(t), local.Options{Dir: dir}); !errors.Is(err, local.ErrNoLibrary) {
		t.Errorf("starting without the library: got %v, want ErrNoLibrary", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a start without the library made the data directory: %v", err)
	}
}

func TestFindLibraryOrder(t *testing.T) {
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Log("the package's name in this test is that of linux/amd64")
	}
	home := nowhere(t)
	find := func(want, why string) {
		t.Helper()
		got, err := local.FindLibrary()
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", why, got, err, want)
		}
	}
	checkout := t.TempDir()
	touch(t, checkout, "deploy/local/package.json")
	inCheckout := touch(t, checkout, "deploy/local/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so")
	deep := filepath.Join(checkout, "schema", "store")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	find(inCheckout, "below a checkout")

	inHome := touch(t, home, ".local/share/idlewatt/lib/libchdb.so")
	find(inHome, "the user's data directory comes before the checkout")
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "xdg"))
	find(inCheckout, "XDG_DATA_HOME moves the user's data directory")
	inXDG := touch(t, home, "xdg/idlewatt/lib/libchdb.so")
	t.Chdir(t.TempDir())
	find(inXDG, "from any working directory")

	named := touch(t, t.TempDir(), "engine.so")
	t.Setenv(local.LibraryEnv, named)
	find(named, "the file that is named")
	t.Setenv(local.LibraryEnv, filepath.Dir(inXDG))
	find(inXDG, "the directory that is named")
	t.Setenv(local.LibraryEnv, filepath.Join(checkout, "deploy", "local"))
	find(inCheckout, "the directory of npm ci that is named")
	t.Setenv(local.LibraryEnv, filepath.Join(home, "typo.so"))
	if _, err := local.FindLibrary(); !errors.Is(err, local.ErrNoLibrary) || !strings.Contains(err.Error(), "typo.so") {
		t.Errorf("a wrong %s gave %v, want an error that names it", local.LibraryEnv, err)
	}
}

// setup runs a copy of setup.sh in a directory without node_modules, with the given programs on its path.
func setup(t *testing.T, data string, programs ...string) (string, error) {
	t.Helper()
	here, bin := t.TempDir(), t.TempDir()
	script, err := os.ReadFile("setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "setup.sh"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(here, "setup.sh"))
	cmd.Env = []string{"PATH=" + bin, "HOME=" + t.TempDir(), "XDG_DATA_HOME=" + data}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func TestSetupSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	said, err := setup(t, t.TempDir(), "uname", "dirname", "sed", "cat", "mkdir", "rm", "ln", "mv")
	if err == nil || !strings.Contains(said, "npm is missing; install Node.js") {
		t.Errorf("without npm: %v, %s", err, said)
	}
}

func TestSetupIsQuickWhenDone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	touch(t, data, "idlewatt/lib/libchdb.so")
	pinned, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	const version = "26.7.3-stable.1"
	if !strings.Contains(string(pinned), `"@chdb/lib-linux-x64-gnu": "`+version+`"`) {
		t.Fatalf("package.json does not pin %s, as setup.sh does", version)
	}
	stamp := touch(t, data, "idlewatt/lib/version")
	if err := os.WriteFile(stamp, []byte("@chdb/lib-linux-x64-gnu@"+version+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := setup(t, data, "uname", "dirname", "cat")
	if err != nil || !strings.Contains(said, "is in place") {
		t.Errorf("with the library in place: %v, %s", err, said)
	}
}
