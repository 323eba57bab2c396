package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idlewatt/idlewatt/connectors"
)

// policyHint says where a policy with every right stands.
const policyHint = "deploy/aws/policy.json has all that idlewatt needs"

// Failure sorts an answer into what is mended by a person and what by waiting, and says what
// was asked for, where (e.g. "account 111122223333, us-east-1"; may be empty), and what to do.
// Nothing is tried again here: the SDK has done so.
func (s *Session) Failure(ctx context.Context, err error, action, where string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	what := action
	if where != "" {
		what += " in " + where
	}
	if op := assuming(err); op != nil && !strings.HasPrefix(action, "sts:") {
		err, what = op, "sts:AssumeRole on "+s.role
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return s.unanswered(err, what)
	}
	message, _, _ := strings.Cut(api.ErrorMessage(), "Encoded authorization failure message") // a KB for administrators
	said := fmt.Errorf("%s: %s: %s", what, api.ErrorCode(), strings.TrimSpace(message))
	status, h := answer(err)
	text, permanent, known := s.remedy(api.ErrorCode())
	switch {
	case known && permanent:
		return connectors.Permanent(codeError{fmt.Errorf("%w; %s", said, text), api.ErrorCode()})
	case known:
		return connectors.RetryAfterError{Err: fmt.Errorf("%w; %s", said, text), After: 5 * time.Minute}
	case busy(api.ErrorCode(), status):
		return connectors.RetryAfterError{Err: said, After: after(h)}
	default:
		return said
	}
}

// codeError keeps the code of an answer.
type codeError struct {
	error
	code string
}

// Disabled reports whether an error says that the account does not use the region.
func Disabled(err error) bool {
	var c codeError
	return errors.As(err, &c) && c.code == "OptInRequired"
}

// remedy is what to do about an error code, and whether waiting does not mend it.
func (s *Session) remedy(code string) (text string, permanent, known bool) {
	switch code {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden":
		return "idlewatt's identity may not do that: allow it (" + policyHint + ")", true, true
	case "OptInRequired":
		return "the account does not use this region", true, true
	case "AuthFailure":
		return "AWS does not take the credentials there: enable the region for the account or leave it out; if no region works, make a new key for " + s.cfg.where(), true, true
	case "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException":
		return "AWS does not know the access key id: it was deleted or belongs elsewhere; make a new key for " + s.cfg.where(), true, true
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		return "the secret key does not belong to the access key id: write both anew for " + s.cfg.where(), true, true
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken":
		return "the temporary credentials are over: renew " + s.cfg.where() + "; with `role:` idlewatt renews them itself", false, true
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clock of this machine is wrong: set it", false, true
	}
	return "", false, false
}

func busy(code string, status int) bool {
	switch code {
	case "SlowDown", "RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException", "ServiceUnavailable", "Unavailable":
		return true
	}
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

func answer(err error) (status int, h http.Header) {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		return r.HTTPStatusCode(), r.Response.Header
	}
	return 0, http.Header{}
}

// after is how long the answer asks to wait, or a minute.
func after(h http.Header) time.Duration {
	if d, err := time.ParseDuration(h.Get("Retry-After") + "s"); err == nil && d > 0 && d < 24*time.Hour {
		return d
	}
	return time.Minute
}

// assuming returns the part of an error that came from taking on a role, or nil.
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
func (s *Session) unanswered(err error, what string) error {
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

// Together makes one error of those of several regions or accounts, of which none says
// anything about the others: permanent only if nothing else was asked, whole says so, and all
// are; tried again when the first of them asks for it.
func Together(errs []error, whole bool) error {
	var texts []error
	wait := time.Duration(-1)
	permanent := whole
	for _, e := range errs {
		texts = append(texts, errors.New(e.Error())) // texts only: one class is not that of all
		permanent = permanent && connectors.IsPermanent(e)
		if d, ok := connectors.RetryAfter(e); ok && (wait < 0 || d < wait) {
			wait = d
		}
	}
	err := errors.Join(texts...)
	switch {
	case err == nil:
		return nil
	case permanent:
		return connectors.Permanent(err)
	case wait >= 0:
		return connectors.RetryAfterError{Err: err, After: wait}
	default:
		return err
	}
}
