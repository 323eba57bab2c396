package awscur

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
)

// whoami answers sts:GetCallerIdentity, which goes to the same endpoint in tests.
func whoami(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = w.Write([]byte(`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::100000000001:user/idlewatt</Arn><UserId>AIDA</UserId><Account>100000000001</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`))
	return true
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	const plain = `{"columns":[{"name":"bill_payer_account_name"},{"name":"line_item_line_item_type"},{"name":"line_item_unblended_cost"},{"name":"bill_billing_period_start_date"}],"dataFiles":["f.csv"]}`
	for name, c := range map[string]struct {
		change func(b *buckettest.Bucket, c *Config)
		answer func(w http.ResponseWriter, r *http.Request) bool
		worst  string
		want   []string
	}{
		"all right": {answer: whoami, worst: connectors.OK, want: []string{
			"user/idlewatt", "1 billing months, 2026-10 to 2026-10", "1 files, format aws-cur2", "can be read", "92, all that aws-cur2 needs", "30 hours ago",
		}},
		"no right to ask who": {worst: connectors.Warn, want: []string{"sts:GetCallerIdentity", "only to name the identity", "can be read"}},
		"never run": {
			answer: whoami, worst: connectors.Fail, change: func(_ *buckettest.Bucket, c *Config) { c.Export = "cur3" },
			want: []string{"24 hours", "gpuorg-cur2", "correct bucket, prefix or export"},
		},
		"manifest denied": {
			worst: connectors.Fail, want: []string{"s3:GetObject on arn:aws:s3:::gpuorg-billing/", "policy.json"},
			answer: func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "Manifest.json") {
					buckettest.Fail(w, 403, "AccessDenied", "Access Denied")
					return true
				}
				return whoami(w, r)
			},
		},
		"file denied": {
			worst: connectors.Fail, want: []string{data2, "policy.json"},
			answer: func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, data2) {
					buckettest.Fail(w, 403, "AccessDenied", "Access Denied")
					return true
				}
				return whoami(w, r)
			},
		},
		"file gone": {answer: whoami, worst: connectors.Warn, change: func(b *buckettest.Bucket, _ *Config) { b.Delete(data2) }, want: []string{"is not there (yet)"}},
		"no resource ids": {answer: whoami, worst: connectors.Warn, want: []string{"INCLUDE_RESOURCES", "cost allocation tags"}, change: func(b *buckettest.Bucket, _ *Config) {
			b.Put("f.csv", []byte("a"), delivered)
			b.Put(manifest2, []byte(plain), delivered)
		}},
		"a column that is required": {answer: whoami, worst: connectors.Fail, want: []string{"needs bill_billing_period_start_date"}, change: func(b *buckettest.Bucket, _ *Config) {
			b.Put("f.csv", []byte("a"), delivered)
			b.Put(manifest2, list("f.csv"), delivered)
		}},
		"old": {answer: whoami, worst: connectors.Warn, want: []string{"at least once a day"}, change: func(b *buckettest.Bucket, _ *Config) {
			b.Put(manifest2, sample(t, "aws_cur2_manifest.json"), delivered.AddDate(0, 0, -3))
		}},
		"other region": {worst: connectors.Fail, want: []string{"write `region: us-east-2`"}, answer: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Has("list-type") {
				w.Header().Set("x-amz-bucket-region", "us-east-2")
				buckettest.Fail(w, 301, "PermanentRedirect", "must be addressed using the specified endpoint")
				return true
			}
			return whoami(w, r)
		}},
		"no profile": {worst: connectors.Fail, change: func(_ *buckettest.Bucket, c *Config) { c.Profile = "nobody" }, want: []string{`no profile "nobody"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := export(t)
			b.Before(c.answer)
			s := source(t, b, func(cfg *Config) {
				if c.change != nil {
					c.change(b, cfg)
				}
			})
			s.now = func() time.Time { return today.Add(15 * time.Minute) }
			worst, text := connectors.OK, ""
			for _, f := range s.Doctor(t.Context()) {
				text += f.Level + "|" + f.What + "|" + f.Said + "|" + f.Fix + "\n"
				if f.Level == connectors.Fail || f.Level == connectors.Warn && worst == connectors.OK {
					worst = f.Level
				}
				if (f.Level == connectors.OK) != (f.Fix == "") || f.What == "" || f.Said == "" || strings.Contains(f.Said, "\n") {
					t.Errorf("finding %+v", f)
				}
			}
			if worst != c.worst {
				t.Errorf("%s, want %s:\n%s", worst, c.worst, text)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("does not say %q:\n%s", w, text)
				}
			}
			if strings.Contains(text, secret) {
				t.Errorf("a secret is told:\n%s", text)
			}
		})
	}
}
