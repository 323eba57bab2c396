package awscur

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// secret is what no message may hold: the key of buckettest.Credentials.
const secret = "wJalrXUtnFEMI"

// said is what S3 answers, in the form of its error documents.
func said(status int, code, message string, header ...string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		buckettest.Fail(w, status, code, message)
	}
}

// Every answer is sorted into what a person mends and what waiting mends, names action and
// resource, and says what to do.
func TestAnswersOfS3(t *testing.T) {
	t.Parallel()
	const denied = "User: arn:aws:iam::100000000001:user/idlewatt is not authorized to perform: s3:ListBucket"
	for name, c := range map[string]struct {
		answer    func(w http.ResponseWriter)
		on        string // GET or LIST
		permanent bool
		after     time.Duration // 0: not said
		want      []string
	}{
		"slow down":         {answer: said(503, "SlowDown", "Please reduce your request rate."), on: "GET", after: time.Minute, want: []string{"s3:GetObject", "SlowDown"}},
		"slow down, so":     {answer: said(503, "SlowDown", "Please reduce your request rate.", "Retry-After", "7"), on: "GET", after: 7 * time.Second},
		"request limit":     {answer: said(400, "RequestLimitExceeded", "Request limit exceeded."), on: "LIST", after: time.Minute},
		"internal":          {answer: said(500, "InternalError", "We encountered an internal error. Please try again."), on: "GET", want: []string{"InternalError"}},
		"denied list":       {answer: said(403, "AccessDenied", denied), on: "LIST", permanent: true, want: []string{"s3:ListBucket on arn:aws:s3:::gpuorg-billing (prefix exports/gpuorg-cur2/metadata/)", "policy.json"}},
		"denied get":        {answer: said(403, "AccessDenied", "Access Denied"), on: "GET", permanent: true, want: []string{"s3:GetObject on arn:aws:s3:::gpuorg-billing/" + manifest2, "policy.json"}},
		"no bucket":         {answer: said(404, "NoSuchBucket", "The specified bucket does not exist"), on: "LIST", permanent: true, want: []string{"there is no bucket", "bucket:"}},
		"unknown key":       {answer: said(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."), on: "LIST", permanent: true, want: []string{"make a new key"}},
		"wrong secret":      {answer: said(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided."), on: "LIST", permanent: true, want: []string{"secret key"}},
		"expired":           {answer: said(400, "ExpiredToken", "The provided token has expired."), on: "LIST", after: 5 * time.Minute, want: []string{"renew the file"}},
		"clock":             {answer: said(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."), on: "LIST", after: 5 * time.Minute, want: []string{"clock"}},
		"redirect, header":  {answer: said(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint.", "x-amz-bucket-region", "us-east-2"), on: "LIST", permanent: true, want: []string{"`region: us-east-2`"}},
		"other region":      {answer: said(400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting 'ap-south-1'"), on: "LIST", permanent: true, want: []string{"`region: ap-south-1`"}},
		"redirect, unknown": {answer: said(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint."), on: "LIST", permanent: true, want: []string{"another region than eu-west-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := export(t)
			b.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if list := r.URL.Query().Has("list-type"); list != (c.on == "LIST") {
					return false
				}
				c.answer(w)
				return true
			})
			k := &taker{}
			cur, err := source(t, b, nil).Pull(t.Context(), nil, k)
			if err == nil || cur != nil || connectors.IsPermanent(err) != c.permanent {
				t.Fatalf("permanent is %v, want %v: %v, cursor %s", connectors.IsPermanent(err), c.permanent, err, cur)
			}
			if after, _ := connectors.RetryAfter(err); after != c.after {
				t.Errorf("retry after %v, want %v", after, c.after)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("a secret is in %q", err)
			}
			none(t, k)
		})
	}
}

// A throttled request that is answered at the second try is no failure.
func TestThrottledOnce(t *testing.T) {
	t.Parallel()
	b := export(t)
	n := 0
	b.Before(func(w http.ResponseWriter, r *http.Request) bool {
		n++
		if n%2 == 1 {
			buckettest.Fail(w, 503, "SlowDown", "Please reduce your request rate.")
		}
		return n%2 == 1
	})
	k, _ := pulled(t, source(t, b, nil), nil)
	one(t, k, 1)
}

// A file in cold storage concerns its month only; what is denied concerns all.
func TestWhatConcernsOneMonth(t *testing.T) {
	t.Parallel()
	for code, months := range map[string]int{coldStorage: 1, "AccessDenied": 0} {
		b := export(t)
		b.Put("f.csv", []byte("a\n1\n"), delivered)
		b.Put(strings.Replace(manifest2, "2026-10", "2026-11", 1), list("f.csv"), delivered)
		b.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, data2) {
				buckettest.Fail(w, 403, code, "The operation is not valid for the object's storage class")
				return true
			}
			return false
		})
		k := &taker{}
		_, err := source(t, b, nil).Pull(t.Context(), nil, k)
		if !connectors.IsPermanent(err) || len(k.deliveries) != months || !strings.Contains(err.Error(), "arn:aws:s3:::"+bucket+"/"+data2) {
			t.Errorf("%s: %d months, %v", code, len(k.deliveries), err)
		}
	}
}

// A role that may not be taken on is named, not the bucket.
func TestRefusedRole(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error><RequestId>r</RequestId></ErrorResponse>`))
	}))
	t.Cleanup(srv.Close)
	b := export(t)
	s := source(t, b, func(c *Config) {
		c.Endpoint, c.Role = srv.URL, awsapi.Role{ARN: "arn:aws:iam::100000000001:role/idlewatt", ExternalID: "7c1f0e"}
	})
	_, err := s.Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || !strings.HasPrefix(err.Error(), "sts:AssumeRole on arn:aws:iam::100000000001:role/idlewatt") {
		t.Errorf("got %v", err)
	}
}

func TestNoWayToS3(t *testing.T) {
	t.Parallel()
	b := export(t)
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	_, err := source(t, b, func(c *Config) { c.Endpoint = srv.URL }).Pull(t.Context(), nil, &taker{})
	if err == nil || connectors.IsPermanent(err) || !strings.Contains(err.Error(), "s3:ListBucket") {
		t.Errorf("got %v", err)
	}
}

func TestMissingProfile(t *testing.T) {
	t.Parallel()
	b := export(t)
	_, err := source(t, b, func(c *Config) { c.Profile = "nobody" }).Pull(t.Context(), nil, &taker{})
	if !connectors.IsPermanent(err) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("got %v", err)
	}
}
