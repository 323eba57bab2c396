package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/idlewatt/idlewatt/deploy/local"
)

// TestScript runs the command line as a user would, on real engines. Each script has a data
// directory of its own. Beside testscript's words there are:
//
//	up [FLAGS]          idlewatt up in the background; ends with the script
//	ok|fails|usage ARGS idlewatt ARGS must exit with 0, 1 or 2
//	ask SQL ROW...      idlewatt query SQL must answer exactly these rows, columns joined by |
//	case NAME           write the files of a handed case that has to be put into a feed's form
//	damage HOW FROM TO  copy a file and damage it
//	pack HOW FROM TO    gzip, zstd or parquet of a CSV
//	bucket HOW ...      a bucket that speaks S3, see bucket_test.go
func TestScript(t *testing.T) {
	library, err := local.FindLibrary()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := filepath.Abs(filepath.Join("testdata", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv(local.LibraryEnv, library)
			e.Setenv("CASES", cases)
			e.Setenv("IDLEWATT_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("TZ", "America/New_York") // nothing may depend on the machine's zone
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"up": up, "ask": ask, "case": writeCase, "damage": damage, "pack": pack, "bucket": bucket,
			"ok":    func(ts *testscript.TestScript, neg bool, args []string) { exits(ts, neg, 0, args) },
			"fails": func(ts *testscript.TestScript, neg bool, args []string) { exits(ts, neg, 1, args) },
			"usage": func(ts *testscript.TestScript, neg bool, args []string) { exits(ts, neg, 2, args) },
		},
	})
}

// patience is how long a script waits for something that happens by itself.
const patience = 60 * time.Second

// up starts an instance and returns when it answers.
func up(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: up [FLAGS]")
	}
	if len(args) == 0 {
		file := ts.MkAbs("up.yaml")
		ts.Check(os.WriteFile(file, []byte("http: {listen: '127.0.0.1:0'}\n"), 0o600))
		args = []string{"-c", file}
	}
	log, err := os.Create(ts.MkAbs("up.log"))
	ts.Check(err)
	bin, err := exec.LookPath("idlewatt")
	ts.Check(err)
	c := exec.Command(bin, append([]string{"up"}, args...)...)
	c.Dir, c.Stdout, c.Stderr = ts.MkAbs("."), log, log
	c.Env = append(os.Environ(), local.LibraryEnv+"="+ts.Getenv(local.LibraryEnv), "IDLEWATT_DATA="+ts.Getenv("IDLEWATT_DATA"), "TZ="+ts.Getenv("TZ"))
	ts.Check(c.Start())
	gone := make(chan error, 1)
	go func() { gone <- c.Wait() }()
	ts.Defer(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-gone
		_ = log.Close()
	})
	deadline := time.Now().Add(patience)
	for {
		text, _ := os.ReadFile(log.Name())
		if strings.Contains(string(text), "idlewatt is up") {
			return
		}
		select {
		case err := <-gone:
			gone <- err
			ts.Fatalf("idlewatt up ended (%v): %s", err, text)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			ts.Fatalf("idlewatt up is not ready: %s", text)
		}
	}
}

func exits(ts *testscript.TestScript, neg bool, want int, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ok|fails|usage ARGS of idlewatt")
	}
	err := ts.Exec("idlewatt", args...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running idlewatt: %v", err)
	}
	if got != want {
		ts.Fatalf("idlewatt %s: exit code %d, want %d", strings.Join(args, " "), got, want)
	}
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ask SQL ROW...")
	}
	exits(ts, false, 0, []string{"query", args[0]})
	got := strings.ReplaceAll(strings.TrimRight(ts.ReadFile("stdout"), "\n"), "\t", "|")
	if want := strings.Join(args[1:], "\n"); got != want {
		ts.Fatalf("%s\ngot:\n%s\nwant:\n%s", args[0], got, want)
	}
}

// damage copies a file as a broken transfer would: `cut N` keeps the first N bytes (from the
// end, if negative), `hole N` takes out 40 bytes from the Nth on, `swap OLD NEW` replaces the
// first such text, `append TEXT` adds text.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: damage cut N FROM TO | hole N FROM TO | swap OLD NEW FROM TO | append TEXT FROM TO")
	}
	how, from, to := args[0], args[len(args)-2], args[len(args)-1]
	b, err := os.ReadFile(ts.MkAbs(from))
	ts.Check(err)
	switch how {
	case "cut":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		if n < 0 {
			n += len(b)
		}
		b = b[:n]
	case "hole":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		b = append(b[:n:n], b[n+40:]...)
	case "swap":
		if !strings.Contains(string(b), args[1]) {
			ts.Fatalf("%s does not hold %q", from, args[1])
		}
		b = []byte(strings.Replace(string(b), args[1], args[2], 1))
	case "append":
		b = append(b, strings.ReplaceAll(args[1], `\n`, "\n")...)
	default:
		ts.Fatalf("unknown damage %q", how)
	}
	ts.Check(os.WriteFile(ts.MkAbs(to), b, 0o600))
}
