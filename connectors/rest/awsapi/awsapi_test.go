package awsapi_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi/awstest"
)

const role = "arn:aws:iam::222233334444:role/idlewatt"

func open(t *testing.T, s *awstest.Server, cfg awsapi.Config) *awsapi.Session {
	t.Helper()
	cfg.Endpoint, cfg.CredentialsFile = s.URL, awstest.Credentials(t)
	w, err := awsapi.Open(t.Context(), cfg, awstest.Hasty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// What AWS says becomes an error that names the action, the place and what to do, of the class
// that decides when to try again.
func TestAnswersBecomeErrorsThatSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		status         int
		code, message  string
		permanent, now bool // now: tried again at the usual pace
		want           []string
	}{
		{403, "UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: c2VjcmV0", true, false, []string{"ec2:DescribeRegions in account 1, eu-west-1", "allow it", "policy.json"}},
		{403, "AccessDenied", "no", true, false, []string{"allow it"}},
		{401, "AuthFailure", "AWS was not able to validate the provided access credentials", true, false, []string{"enable the region"}},
		{400, "OptInRequired", "You are not subscribed", true, false, []string{"does not use this region"}},
		{400, "SignatureDoesNotMatch", "no", true, false, []string{"the secret key"}},
		{400, "RequestExpired", "no", false, false, []string{"clock"}},
		{400, "ExpiredToken", "no", false, false, []string{"temporary credentials"}},
		{503, "RequestLimitExceeded", "Request limit exceeded.", false, false, []string{"RequestLimitExceeded"}},
		{400, "Throttling", "Rate exceeded", false, false, []string{"Throttling"}},
		{500, "InternalError", "oops", false, true, []string{"InternalError", "oops"}},
	} {
		s := awstest.New(t, func(awstest.Call) awstest.Answer { return awstest.EC2Error(x.status, x.code, x.message) })
		w := open(t, s, awsapi.Config{})
		_, err := ec2.NewFromConfig(w.In("eu-west-1")).DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{})
		err = w.Failure(t.Context(), err, "ec2:DescribeRegions", "account 1, eu-west-1")
		_, later := connectors.RetryAfter(err)
		if connectors.IsPermanent(err) != x.permanent || later != (!x.permanent && !x.now) {
			t.Errorf("%s: permanent %v, later %v: %v", x.code, connectors.IsPermanent(err), later, err)
		}
		for _, part := range x.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", x.code, err, part)
			}
		}
		if awsapi.Disabled(err) != (x.code == "OptInRequired") {
			t.Errorf("%s: disabled %v", x.code, awsapi.Disabled(err))
		}
		if strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), awstest.SecretKey) {
			t.Errorf("%s: %q holds what it must not", x.code, err)
		}
	}
}

func TestRolesAreTakenOn(t *testing.T) {
	t.Parallel()
	s := awstest.New(t, nil)
	s.Roles[role] = "ext"
	if id, err := open(t, s, awsapi.Config{}).Account(t.Context()); id != awstest.Own || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
	if id, err := open(t, s, awsapi.Config{Role: awsapi.Role{ARN: role, ExternalID: "ext"}}).Account(t.Context()); id != "222233334444" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
	w := open(t, s, awsapi.Config{}).As(awsapi.Role{ARN: role, ExternalID: "other"})
	_, err := ec2.NewFromConfig(w.In("us-east-1")).DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{})
	err = w.Failure(t.Context(), err, "ec2:DescribeRegions", "us-east-1")
	if !connectors.IsPermanent(err) || !strings.HasPrefix(err.Error(), "sts:AssumeRole on "+role) {
		t.Errorf("a wrong external id gives %v", err)
	}
}

// A credentials file that cannot be read is not quoted.
func TestBrokenCredentialsAreNotQuoted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte("[default]\naws_access_key_id = AKIAX\naws_secret_access_key\n"+awstest.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := awstest.New(t, nil)
	w, err := awsapi.Open(t.Context(), awsapi.Config{CredentialsFile: path, Endpoint: s.URL}, awstest.Hasty)
	if err == nil {
		_, err = w.Account(t.Context())
		w.Close()
	}
	if err == nil || strings.Contains(err.Error(), awstest.SecretKey) {
		t.Errorf("got %v", err)
	}
	_, err = awsapi.Open(t.Context(), awsapi.Config{CredentialsFile: awstest.Credentials(t), Profile: "payer"}, nil)
	if err == nil || !connectors.IsPermanent(err) || !strings.Contains(err.Error(), `"payer"`) {
		t.Errorf("an unknown profile gives %v", err)
	}
}

func TestTogetherIsAsBadAsTheBest(t *testing.T) {
	t.Parallel()
	plain, hard := errors.New("a"), connectors.Permanent(errors.New("b"))
	wait := connectors.RetryAfterError{Err: errors.New("c"), After: 7}
	for i, x := range []struct {
		errs      []error
		whole     bool
		permanent bool
		after     bool
	}{
		{nil, true, false, false},
		{[]error{hard, hard}, true, true, false},
		{[]error{hard}, false, false, false},
		{[]error{hard, plain}, true, false, false},
		{[]error{hard, wait}, true, false, true},
	} {
		err := awsapi.Together(x.errs, x.whole)
		_, after := connectors.RetryAfter(err)
		if (err == nil) != (x.errs == nil) || connectors.IsPermanent(err) != x.permanent || after != x.after {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestCursorsAreSmallAndComeBack(t *testing.T) {
	t.Parallel()
	in := map[string]string{}
	for i := range 2000 {
		in[strings.Repeat("x", i%40)+string(rune('a'+i%26))] = "tag of a machine, much like the last"
	}
	cur, err := awsapi.Pack(in)
	again, err2 := awsapi.Pack(in)
	if err != nil || err2 != nil || string(cur) != string(again) {
		t.Fatalf("not the same twice: %v, %v", err, err2)
	}
	var out map[string]string
	if err := awsapi.Unpack(cur, &out); err != nil || len(out) != len(in) {
		t.Errorf("%d of %d, %v", len(out), len(in), err)
	}
	for _, bad := range []string{`{"seen":`, `{}`, `{"gzip":"AAAA"}`, `[]`} {
		if err := awsapi.Unpack(connectors.Cursor(bad), &out); !connectors.IsPermanent(err) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestConfigNamesItsFields(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]awsapi.Config{
		"region: ":           {Region: "Ireland"},
		"role.arn: ":         {Role: awsapi.Role{ARN: "idlewatt"}},
		"role.external_id: ": {Role: awsapi.Role{ExternalID: "x"}},
		"endpoint: want":     {Endpoint: "localhost"},
		"endpoint: must not": {Endpoint: "http://a:b@localhost"},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (awsapi.Config{Region: "us-gov-west-1", Role: awsapi.Role{ARN: role}}).Validate(); err != nil {
		t.Error(err)
	}
}
