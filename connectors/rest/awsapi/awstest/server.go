// Package awstest is an AWS of one HTTP server, for tests of connectors: it tells services,
// regions and accounts apart by the signature of a request, and answers for STS itself. The
// answers of other services are the test's.
package awstest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Own is the account of the credentials that Credentials writes.
const Own = "111122223333"

// SecretKey is the secret of all keys here: no event, log or error may hold it.
const SecretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" //nolint:gosec // AWS's example

// Call is one request, read.
type Call struct {
	Service, Region, Account string
	Action                   string
	Form                     url.Values // of the services that take forms
	Body                     []byte
	Request                  *http.Request
}

// Answer is what the test says to a call.
type Answer struct {
	Status int // 0 is 200
	Body   string
}

// Server is the fake. Roles names the external id that a role wants, by ARN; others need none.
type Server struct {
	URL    string
	Roles  map[string]string
	answer func(Call) Answer

	mu    sync.Mutex
	calls []Call
}

// New starts a server that asks answer for everything but STS.
func New(t testing.TB, answer func(Call) Answer) *Server {
	t.Helper()
	s := &Server{Roles: map[string]string{}, answer: answer}
	srv := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Credentials writes a credentials file of account Own and returns its path.
func Credentials(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = AKIA" + Own + "\naws_secret_access_key = " + SecretKey + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Hasty makes the SDK try once, without pauses.
func Hasty(c *aws.Config) { c.Retryer = func() aws.Retryer { return aws.NopRetryer{} } }

// Calls are the requests since the last call of it.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

var credential = regexp.MustCompile(`Credential=(?:AKIA|ASIA)(\d{12})/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request`)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m := credential.FindStringSubmatch(r.Header.Get("Authorization"))
	if err != nil || m == nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c := Call{Account: m[1], Region: m[2], Service: m[3], Body: body, Request: r}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, c.Action, _ = strings.Cut(target, ".")
	} else if c.Form, err = url.ParseQuery(string(body)); err == nil {
		c.Action = c.Form.Get("Action")
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	var a Answer
	if c.Service == "sts" {
		a = s.sts(c)
	} else {
		a = s.answer(c)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = io.WriteString(w, a.Body) // a client that is gone sees no answer
}

func (s *Server) sts(c Call) Answer {
	if c.Action == "GetCallerIdentity" {
		return Answer{Body: fmt.Sprintf(`<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::%s:user/idlewatt</Arn><UserId>AIDA</UserId><Account>%s</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`, c.Account, c.Account)}
	}
	arn := c.Form.Get("RoleArn")
	if want, known := s.Roles[arn]; !known || want != c.Form.Get("ExternalId") {
		return Answer{http.StatusForbidden, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>`}
	}
	return Answer{Body: fmt.Sprintf(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>`+
		`<SessionToken>token</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
		strings.Split(arn, ":")[4], SecretKey, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))} //nolint:forbidigo // the SDK compares it with the real clock
}

// EC2Error is an error as EC2 writes it.
func EC2Error(status int, code, message string) Answer {
	var text strings.Builder
	if err := xml.EscapeText(&text, []byte(message)); err != nil {
		return Answer{Status: http.StatusInternalServerError}
	}
	return Answer{status, "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>" + code + "</Code><Message>" + text.String() +
		"</Message></Error></Errors><RequestID>0e1c2b8a-1d3f-4f0e-9c57-6a1e0b7d2c11</RequestID></Response>"}
}
