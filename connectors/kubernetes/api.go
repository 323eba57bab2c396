package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest"
)

// server asks one API server.
type server struct {
	cfg   Config
	mu    sync.Mutex
	http  *http.Client // nil until the CA file was read
	whole *rest.Client // asks for objects as they are
	meta  *rest.Client // asks for objects without their spec, which may hold secrets
}

const onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

func (s *server) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.cfg.CAFile != "" && strings.HasPrefix(s.cfg.Server, "https:") {
		pem, err := os.ReadFile(s.cfg.CAFile)
		if err != nil {
			return connectors.Permanent(fmt.Errorf("ca_file: %w", err))
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return connectors.Permanent(fmt.Errorf("ca_file: %s holds no certificate", s.cfg.CAFile))
		}
	}
	s.http = &http.Client{
		Timeout:       s.cfg.Timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	client := func(accept string) *rest.Client {
		return &rest.Client{
			Provider: "Kubernetes", Base: strings.TrimSuffix(s.cfg.Server, "/"), Key: rest.Key{File: s.cfg.TokenFile}, HTTP: s.http,
			Authorize: func(r *http.Request, token string) {
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("Accept", accept)
			},
		}
	}
	s.whole, s.meta = client("application/json"), client(onlyMetadata)
	return nil
}

// rest ends the connections that are not in use: a pull leaves nothing behind.
func (s *server) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

func (s *server) get(ctx context.Context, path string, q url.Values, v any) error {
	if err := s.open(); err != nil {
		return err
	}
	_, err := s.whole.Do(ctx, rest.Call{Path: path, Query: q}, v)
	return err
}

// metadata reads an object's metadata alone.
func (s *server) metadata(ctx context.Context, path string) (meta, error) {
	if err := s.open(); err != nil {
		return meta{}, err
	}
	var o struct {
		Metadata meta `json:"metadata"`
	}
	_, err := s.meta.Do(ctx, rest.Call{Path: path}, &o)
	return o.Metadata, err
}

// page is one part of a list.
type page struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

const (
	pageSize = 500
	restarts = 3 // how often a list begins anew after its continuation expired
)

var errExpired = errors.New("try again later")

// list reads a list whole, page by page. A continuation that expired (410) begins it anew: a
// part of a list would make the rest look deleted.
func (s *server) list(ctx context.Context, path string) ([]json.RawMessage, error) {
	var err error
	for range restarts {
		var all []json.RawMessage
		all, err = s.pages(ctx, path)
		if status(err) != http.StatusGone {
			return all, err
		}
	}
	return nil, fmt.Errorf("listing %s: its pages expired %d times while they were read: %w", path, restarts, errExpired)
}

func (s *server) pages(ctx context.Context, path string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		var p page
		if err := s.get(ctx, path, q, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if p.Metadata.Continue == "" {
			return all, nil
		}
		q.Set("continue", p.Metadata.Continue)
	}
}

// status is the HTTP status of a refusal, or 0.
func status(err error) int {
	var s *rest.StatusError
	if errors.As(err, &s) {
		return s.Status
	}
	return 0
}

// objectPath is where an owner is found. Kinds become resources as Kubernetes' own and those
// of the known operators do: lower case, plural.
func objectPath(apiVersion, kind, namespace, name string) string {
	plural := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(plural, "y"):
		plural = strings.TrimSuffix(plural, "y") + "ies"
	case strings.HasSuffix(plural, "s"), strings.HasSuffix(plural, "x"), strings.HasSuffix(plural, "ch"):
		plural += "es"
	default:
		plural += "s"
	}
	base := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		base = "/api/" + apiVersion
	}
	return base + "/namespaces/" + url.PathEscape(namespace) + "/" + plural + "/" + url.PathEscape(name)
}
