package dcgm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// resolver is the part of net.Resolver that finds SRV records.
type resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// srvFinder asks DNS. Port and host are the record's; priority and weight mean nothing here:
// every exporter is scraped.
type srvFinder struct {
	name    string
	dns     resolver
	timeout time.Duration
}

func (f srvFinder) find(ctx context.Context) ([]target, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	_, records, err := f.dns.LookupSRV(ctx, "", "", f.name)
	out := make([]target, 0, len(records))
	for _, r := range records { // with an error they are those that are good
		out = append(out, target{Addr: net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))})
	}
	switch {
	case len(out) > 0:
		return out, err
	case err != nil:
		return nil, err
	}
	return nil, errors.New("it has no SRV record") // DNS has no empty list
}

const maxList = 32 << 20

// httpFinder asks a server that speaks Prometheus' HTTP service discovery.
type httpFinder struct {
	url  string
	http *http.Client
}

func newHTTPFinder(url string, timeout time.Duration) httpFinder {
	// Connections are not kept: the list is asked for once a minute.
	return httpFinder{url, &http.Client{Timeout: timeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}}
}

func (f httpFinder) find(ctx context.Context) ([]target, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "idlewatt")
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return readList(resp.Body)
}

// fileFinder reads a list from a file.
type fileFinder string

func (f fileFinder) find(context.Context) ([]target, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return readList(file)
}

// readList reads a list of targets as Prometheus has it in http_sd and file_sd (JSON). Of the
// labels, node names the host, and __scheme__ and __metrics_path__ the URL. An entry that is
// no target costs that entry.
func readList(r io.Reader) ([]target, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxList {
		return nil, fmt.Errorf("the list is longer than %d MiB", maxList>>20)
	}
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, fmt.Errorf("is no list of targets as Prometheus has it: %w", err)
	}
	if groups == nil {
		return nil, errors.New("is no list of targets: null")
	}
	out := []target{}
	var errs []error
	for i, g := range groups {
		for j, addr := range g.Targets {
			t := target{Addr: located(addr, g.Labels), Node: g.Labels["node"]}
			_, err := targetURL(t.Addr)
			if err == nil && !plainNode(t.Node) {
				err = errors.New("its label node is no host name")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("[%d].targets[%d]: %w", i, j, err))
				continue
			}
			out = append(out, t)
		}
	}
	return out, errors.Join(errs...)
}

// located makes a URL of a host:port where the labels say more than the default.
func located(addr string, labels map[string]string) string {
	scheme, path := labels["__scheme__"], labels["__metrics_path__"]
	if strings.Contains(addr, "://") || (scheme == "" || scheme == "http") && (path == "" || path == "/metrics") {
		return addr
	}
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	return cmp.Or(scheme, "http") + "://" + addr + path
}

const maxNode = 253 // the longest DNS name

func plainNode(name string) bool {
	return len(name) <= maxNode && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError })
}
