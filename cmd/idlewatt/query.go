package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/idlewatt/idlewatt/deploy/local"
)

type queryCmd struct {
	Format string `help:"Any ClickHouse output format: TSV, JSONEachRow, PrettyCompact, CSVWithNames, ..." placeholder:"F"`
	SQL    string `arg:"" name:"sql" help:"One statement; tables and views of database idlewatt. - reads it from standard input."`
}

func (c *queryCmd) Run(e *env) (err error) {
	if c.SQL == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
		c.SQL = string(text)
	}
	if strings.TrimSpace(c.SQL) == "" {
		return usagef("query: the SQL is empty")
	}
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	return a.query(c.SQL, c.format(e), e.out)
}

// format is what people would rather read on a terminal, and TSV in a pipe.
func (c *queryCmd) format(e *env) string {
	if c.Format != "" {
		return c.Format
	}
	if f, ok := e.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "PrettyCompact"
	}
	return "TSV"
}

// query streams the answer of one statement, as the analyst who reads database idlewatt only.
func (a *app) query(sql, format string, out io.Writer) error {
	q := url.Values{"default_format": {format}, "database": {"idlewatt"}}
	req, err := http.NewRequestWithContext(a.ctx, http.MethodPost, strings.TrimRight(a.inst.HTTPURL, "/")+"/?"+q.Encode(), strings.NewReader(sql))
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	user, password := a.inst.AnalystUser, a.inst.AnalystPassword
	if user == "" {
		user, password = a.inst.User, a.inst.Password
	}
	req.Header.Set("X-ClickHouse-User", user)
	req.Header.Set("X-ClickHouse-Key", password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking ClickHouse: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return fmt.Errorf("reading ClickHouse's answer: %w", err)
		}
		return fmt.Errorf("query: %s", strings.TrimSpace(string(text)))
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("reading ClickHouse's answer: %w", err)
	}
	return nil
}
