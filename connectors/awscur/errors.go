package awscur

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idlewatt/idlewatt/connectors"
)

// errReplaced says that a file is another one than a moment ago: AWS is rewriting the month.
var errReplaced = errors.New("it was replaced while it was read")

// failure sorts an answer of S3 into what is mended by a person and what by waiting, and says
// what was asked for and what to do. below is a key, or a prefix of keys. What is not about
// buckets is sorted as for all of AWS.
func (s *session) failure(ctx context.Context, err error, action, below string) error {
	what := action + " on " + s.arn(action, below)
	var api smithy.APIError
	if ctx.Err() == nil && errors.As(err, &api) {
		if fix := s.fix(err, api); fix != "" {
			return connectors.Permanent(fmt.Errorf("%s: %s: %s; %s", what, api.ErrorCode(), strings.TrimSpace(api.ErrorMessage()), fix))
		}
	}
	return s.aws.Failure(ctx, err, what, "")
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

// fix is what to do about an answer that is about the bucket or a file; "" if it is not.
func (s *session) fix(err error, api smithy.APIError) string {
	switch api.ErrorCode() {
	case coldStorage:
		return "the file is in an archive storage class: restore it in S3, or leave older months out with `since:`"
	case "NoSuchBucket":
		return fmt.Sprintf("there is no bucket %q: correct `bucket:`", s.cfg.Bucket)
	case "AllAccessDisabled":
		return "AWS has closed the bucket: ask its owner"
	}
	region, other := elsewhere(err, api)
	switch {
	case region != "":
		return fmt.Sprintf("the bucket %q is in %s: write `region: %s`", s.cfg.Bucket, region, region)
	case other:
		return fmt.Sprintf("the bucket %q is in another region than %s: write its own as `region:`", s.cfg.Bucket, s.aws.Home())
	}
	return ""
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
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
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
