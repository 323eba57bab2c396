// Command idlewatt tells what every GPU dollar paid for: the job that spent it or the hour
// that wasted it.
//
// Here lives wiring: flags, configuration, constructors, output. No rule and no SQL.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/idlewatt/idlewatt/dashboards/query"
	"github.com/idlewatt/idlewatt/dashboards/report"
	"github.com/idlewatt/idlewatt/deploy/local"
)

// version is set by the linker.
var version = "dev"

// cli is every command and flag. Each command's help text carries an example.
type cli struct {
	Data    string `help:"Data directory." env:"IDLEWATT_DATA" default:"./idlewatt-data" placeholder:"DIR"`
	Verbose bool   `short:"v" help:"Log what is done, to standard error."`

	Demo        demoCmd        `cmd:"" help:"Everything, with the shipped sample month. Example: idlewatt demo --once"`
	Up          upCmd          `cmd:"" help:"Everything, from a configuration file. Example: idlewatt up -c idlewatt.yaml"`
	Import      importCmd      `cmd:"" help:"Read files by hand. Example: idlewatt import --source payer --format aws-cur2 2026-10/*.parquet"`
	Pull        pullCmd        `cmd:"" help:"Run connectors once, now. Example: idlewatt pull -c idlewatt.yaml gpus"`
	Query       queryCmd       `cmd:"" help:"Run SQL as the analyst. Example: idlewatt query 'SELECT * FROM idlewatt.project_costs'"`
	Report      reportCmd      `cmd:"" help:"Print a report. Example: idlewatt report allocation --month 2026-10 --by project"`
	Alert       alertCmd       `cmd:"" help:"Check alert rules, see what fired. Example: idlewatt alert check -c idlewatt.yaml"`
	Dead        deadCmd        `cmd:"" help:"Look after refused events. Example: idlewatt dead list"`
	CheckConfig checkConfigCmd `cmd:"" help:"Check a configuration file. Example: idlewatt check-config idlewatt.yaml"`
	Doctor      doctorCmd      `cmd:"" help:"Say what keeps facts from coming in. Example: idlewatt doctor -c idlewatt.yaml payer"`
	Docs        docsCmd        `cmd:"" help:"Print documentation made from the code. Example: idlewatt docs schema"`
	Version     versionCmd     `cmd:"" help:"Print the version. Example: idlewatt version"`
}

// useData takes the data directory of a configuration, unless the command line names one.
func (e *env) useData(l *loaded) {
	if l.Data != "" && e.data == defaultData {
		e.data = l.Data
	}
}

// usageError is wrong usage or configuration: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// env is what every command gets: where to write and whom to ask for the time.
type env struct {
	ctx     context.Context
	out     io.Writer // results, and nothing else
	errOut  io.Writer // progress, logs and errors
	log     *slog.Logger
	data    string
	now     func() time.Time
	verbose bool
	// timeZone is the reporting time zone to put in force; empty keeps the one in force.
	timeZone string
}

func main() {
	local.RunChildIfAsked()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run parses and runs one command; it returns 0 when it is done, 1 when it failed and 2 for
// wrong usage or configuration.
func run(args []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	code := -1
	parser, err := kong.New(&c, kong.Name("idlewatt"),
		kong.Description("Every GPU dollar, to the job that spent it or the hour that wasted it."),
		kong.Writers(out, errOut), kong.UsageOnError(), kong.Exit(func(n int) { code = n }),
		kong.Vars{
			"formats": formatNames(), "reports": strings.Join(report.Names(), ", "),
			"report_formats": strings.Join(report.Formats(), ", "), "dimensions": strings.Join(query.Dimensions(), ", "),
		})
	if err != nil {
		fmt.Fprintln(errOut, "idlewatt:", err)
		return 2
	}
	k, err := parser.Parse(args)
	if code >= 0 {
		return code
	}
	if err != nil {
		fmt.Fprintf(errOut, "idlewatt: %v\nTry `idlewatt --help`.\n", err)
		return 2
	}
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelInfo
	}
	e := &env{
		ctx: ctx, out: out, errOut: errOut, data: c.Data, now: time.Now, verbose: c.Verbose,
		log: slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level})),
	}
	if err := k.Run(e); err != nil {
		fmt.Fprintln(errOut, "idlewatt:", err)
		var u usageError
		if errors.As(err, &u) {
			return 2
		}
		return 1
	}
	return 0
}

type versionCmd struct{}

func (versionCmd) Run(e *env) error {
	_, err := fmt.Fprintln(e.out, "idlewatt", version)
	return err
}
