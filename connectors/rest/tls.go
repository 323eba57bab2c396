package rest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// TLS is the section of a source that asks https URLs of the operator's own servers.
type TLS struct {
	CAFile             string `yaml:"ca_file"`
	CertFile           string `yaml:"cert_file"`
	KeyFile            string `yaml:"key_file"`
	ServerName         string `yaml:"server_name"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// Transport is the default transport with these certificates. Errors name their field.
func (c TLS) Transport() (*http.Transport, error) {
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.ServerName,
		InsecureSkipVerify: c.InsecureSkipVerify, //nolint:gosec // the operator's explicit choice
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading tls.ca_file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading tls.ca_file %s: it holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading tls.cert_file and tls.key_file: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // it always is one
	transport.TLSClientConfig = t
	return transport, nil
}
