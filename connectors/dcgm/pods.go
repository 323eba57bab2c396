package dcgm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/connectors/rest"
)

// PodsConfig finds exporters as pods. The defaults are those of a pod with a service account
// in the cluster itself.
type PodsConfig struct {
	Server    string `yaml:"server"`     // the API server's URL
	TokenFile string `yaml:"token_file"` // read at every request
	CAFile    string `yaml:"ca_file"`    // of the API server
	Namespace string `yaml:"namespace"`  // empty: all
	// LabelSelector is required: app=nvidia-dcgm-exporter for the GPU operator's,
	// app.kubernetes.io/name=dcgm-exporter for the chart's.
	LabelSelector string `yaml:"label_selector"`
	Port          int    `yaml:"port"` // 9400 if not given
}

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"
	exporterPort   = 9400
)

// filled returns the configuration with its defaults. A server that is given brings no CA of
// the cluster's own with it.
func (p PodsConfig) filled() PodsConfig {
	if p.Server == "" {
		p.Server = "https://kubernetes.default.svc"
		if p.CAFile == "" {
			p.CAFile = serviceAccount + "ca.crt"
		}
	}
	if p.TokenFile == "" {
		p.TokenFile = serviceAccount + "token"
	}
	if p.Port == 0 {
		p.Port = exporterPort
	}
	return p
}

func (p PodsConfig) validate() error {
	p = p.filled()
	var errs []error
	u, err := url.Parse(p.Server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		errs = append(errs, errors.New("kubernetes.server: is no URL of an API server"))
	case u.User != nil:
		errs = append(errs, errors.New("kubernetes.server: must not hold credentials: use token_file"))
	}
	if p.LabelSelector == "" {
		errs = append(errs, errors.New("kubernetes.label_selector: is required, such as app=nvidia-dcgm-exporter"))
	}
	if strings.ContainsAny(p.Namespace, "/?#% ") {
		errs = append(errs, fmt.Errorf("kubernetes.namespace: %q is no name", p.Namespace))
	}
	if p.Port < 1 || p.Port > 65535 {
		errs = append(errs, fmt.Errorf("kubernetes.port: %d is no port", p.Port))
	}
	return errors.Join(errs...)
}

// podFinder asks the API server for the exporters' pods. The node is spec.nodeName: what the
// exporter calls its host may be the name of its own pod.
type podFinder struct {
	cfg     PodsConfig
	timeout time.Duration
}

// podList is the part of a PodList that is used.
type podList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
			PodIP string `json:"podIP"`
		} `json:"status"`
	} `json:"items"`
}

const podPage = 500

func (f *podFinder) find(ctx context.Context) ([]target, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	defer client.HTTP.CloseIdleConnections()
	path := "/api/v1/pods"
	if f.cfg.Namespace != "" {
		path = "/api/v1/namespaces/" + url.PathEscape(f.cfg.Namespace) + "/pods"
	}
	q := url.Values{"labelSelector": {f.cfg.LabelSelector}, "fieldSelector": {"status.phase=Running"}, "limit": {strconv.Itoa(podPage)}}
	out := []target{}
	for {
		var list podList
		if _, err := client.Do(ctx, rest.Call{Path: path, Query: q}, &list); err != nil {
			return nil, err // half a list would hide nodes
		}
		for _, p := range list.Items {
			// A pod that starts or goes has no exporter that must answer.
			if p.Status.Phase == "Running" && p.Status.PodIP != "" && p.Metadata.DeletionTimestamp == "" {
				out = append(out, target{Addr: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(f.cfg.Port)), Node: p.Spec.NodeName})
			}
		}
		if list.Metadata.Continue == "" {
			return out, nil
		}
		q.Set("continue", list.Metadata.Continue)
	}
}

// client reads the CA file anew: it changes when the cluster's does.
func (f *podFinder) client() (*rest.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.cfg.CAFile != "" {
		pem, err := os.ReadFile(f.cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kubernetes.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kubernetes.ca_file: %s holds no certificate", f.cfg.CAFile)
		}
	}
	return &rest.Client{
		Provider: "Kubernetes", Base: strings.TrimSuffix(f.cfg.Server, "/"), Key: rest.Key{File: f.cfg.TokenFile},
		HTTP: &http.Client{
			Timeout:       f.timeout,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}
