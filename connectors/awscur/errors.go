package awscur

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idlewatt/idlewatt/connectors"
)

// errReplaced says that a file is another one than a moment ago: AWS is rewriting the month.
var errReplaced = errors.New("it was replaced while it was read")

// policyHint says where a policy with every right stands.
const policyHint = "deploy/aws/policy.json has all that idlewatt needs"

// failure sorts an answer of AWS into what is mended by a person, what by waiting, and says
// what was asked for and what to do. below is a key, or a prefix of keys; it is not retried
// here: the SDK has tried three times.
func (s *session) failure(ctx context.Context, err error, action, below string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	what := action + " on " + s.arn(action, below)
	if op := assuming(err); op != nil {
		err, what = op, "sts:AssumeRole on "+s.cfg.Role.ARN
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return s.unanswered(err, what)
	}
	said := fmt.Errorf("%s: %s: %s", what, api.ErrorCode(), strings.TrimSpace(api.ErrorMessage()))
	fix, known := s.fix(err, api, what)
	status, h := answer(err)
	switch {
	case known && fix.permanent:
		return connectors.Permanent(fmt.Errorf("%w; %s", said, fix.text))
	case known:
		return connectors.RetryAfterError{Err: fmt.Errorf("%w; %s", said, fix.text), After: fix.after}
	case busy(api.ErrorCode(), status):
		return connectors.RetryAfterError{Err: said, After: after(h)}
	default:
		return said
	}
}

// arn names what an action is asked for: the bucket, or an object of it.
func (s *session) arn(action, below string) string {
	if action == "s3:ListBucket" {
		if below == "" {
			return "arn:aws:s3:::" + s.cfg.Bucket
		}
		return "arn:aws:s3:::" + s.cfg.Bucket + " (prefix " + below + ")"
	}
	return "arn:aws:s3:::" + s.cfg.Bucket + "/" + below
}

// remedy is what to do about an error, and whether waiting may mend it.
type remedy struct {
	text      string
	permanent bool
	after     time.Duration
}

func (s *session) fix(err error, api smithy.APIError, what string) (remedy, bool) {
	switch api.ErrorCode() {
	case "AccessDenied", "AccessDeniedException", "AllAccessDisabled", "Forbidden":
		return remedy{text: "idlewatt's identity may not do that: allow it (" + policyHint + ")", permanent: true}, true
	case coldStorage:
		return remedy{text: "the file is in an archive storage class: restore it in S3, or leave older months out with `since:`", permanent: true}, true
	case "NoSuchBucket":
		return remedy{text: fmt.Sprintf("there is no bucket %q: correct `bucket:`", s.cfg.Bucket), permanent: true}, true
	case "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException":
		return remedy{text: "AWS does not know the access key id: it was deleted or belongs elsewhere; make a new key for " + s.credentials(), permanent: true}, true
	case "SignatureDoesNotMatch":
		return remedy{text: "the secret key does not belong to the access key id: write both anew for " + s.credentials(), permanent: true}, true
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken":
		return remedy{text: "the temporary credentials are over: renew " + s.credentials() + "; with `role:` idlewatt renews them itself", after: 5 * time.Minute}, true
	case "RequestTimeTooSkewed", "RequestExpired":
		return remedy{text: "the clock of this machine is wrong: set it", after: 5 * time.Minute}, true
	}
	if region, ok := elsewhere(err, api); ok {
		text := fmt.Sprintf("the bucket %q is in another region than the one that was asked", s.cfg.Bucket)
		if region != "" {
			text = fmt.Sprintf("the bucket %q is in %s: write `region: %s`", s.cfg.Bucket, region, region)
		}
		return remedy{text: text, permanent: true}, true
	}
	if status, _ := answer(err); status == http.StatusForbidden && strings.HasPrefix(what, "s3:") { // HEAD says no code
		return remedy{text: "idlewatt's identity may not do that: allow it (" + policyHint + ")", permanent: true}, true
	}
	return remedy{}, false
}

// coldStorage is the answer for a file that a lifecycle rule has put away.
const coldStorage = "InvalidObjectState"

func frozen(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == coldStorage
}

var expecting = regexp.MustCompile(`expecting '([a-z0-9-]+)'`)

// elsewhere reports whether the bucket is in another region, and which, if the answer says so
// in its header or its text.
func elsewhere(err error, api smithy.APIError) (region string, ok bool) {
	status, h := answer(err)
	switch api.ErrorCode() {
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect":
	default:
		if status != http.StatusMovedPermanently {
			return "", false
		}
	}
	region = h.Get("X-Amz-Bucket-Region")
	if m := expecting.FindStringSubmatch(api.ErrorMessage()); region == "" && m != nil {
		region = m[1]
	}
	return region, true
}

func answer(err error) (status int, h http.Header) {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		return r.HTTPStatusCode(), r.Response.Header
	}
	return 0, http.Header{}
}

func busy(code string, status int) bool {
	switch code {
	case "SlowDown", "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "ServiceUnavailable":
		return true
	}
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// after is how long the answer asks to wait, or a minute.
func after(h http.Header) time.Duration {
	if d, err := time.ParseDuration(h.Get("Retry-After") + "s"); err == nil && d > 0 && d < 24*time.Hour {
		return d
	}
	return time.Minute
}

// assuming returns the part of an error that came from taking on the role, or nil.
func assuming(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		var op *smithy.OperationError
		if !errors.As(e, &op) {
			return nil
		}
		if op.Service() == "STS" {
			return op
		}
		e = op
	}
	return nil
}

// unanswered is an error without an answer of AWS: no credentials, or no way to it.
func (s *session) unanswered(err error, what string) error {
	if text := err.Error(); strings.Contains(text, "get credentials") || strings.Contains(text, "get identity") {
		return connectors.RetryAfterError{
			Err:   fmt.Errorf("%s: no AWS credentials were found: set `profile:`, `credentials_file:`, the AWS_* variables, or give the machine a role", what),
			After: 5 * time.Minute,
		}
	}
	for { // the innermost text: what is around it repeats the names of operations
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		var u *smithyhttp.RequestSendError
		if errors.As(err, &u) && u.Err != nil {
			return fmt.Errorf("%s: %w", what, u.Err)
		}
		err = inner
	}
}

// noConfig is an error of reading the AWS configuration. Its text is not passed on where it
// could quote a file of credentials.
func (s *session) noConfig(err error) error {
	var p config.SharedConfigProfileNotExistError
	if errors.As(err, &p) {
		return fmt.Errorf("reading the AWS configuration: there is no profile %q: correct `profile:` or add it to %s", p.Profile, s.credentials())
	}
	return errors.New("reading the AWS configuration: it cannot be read; `aws sts get-caller-identity` with the same profile says more")
}

// credentials names where credentials come from, for messages.
func (s *session) credentials() string {
	switch {
	case s.cfg.CredentialsFile != "":
		return "the file " + s.cfg.CredentialsFile
	case s.cfg.Profile != "":
		return fmt.Sprintf("profile %q", s.cfg.Profile)
	default:
		return "the environment (AWS_* variables, shared files or the machine's role)"
	}
}
