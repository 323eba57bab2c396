package awsapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/idlewatt/idlewatt/connectors"
)

// Session is the way to AWS as one identity.
type Session struct {
	cfg       Config
	role      string // that was taken on last; empty: none
	aws       aws.Config
	transport *http.Transport
}

// Open reads credentials anew, so that rotated files are seen. tune changes what the SDK does;
// it is for tests and may be nil.
func Open(ctx context.Context, cfg Config, tune func(*aws.Config)) (*Session, error) {
	s := &Session{cfg: cfg}
	loaded, err := config.LoadDefaultConfig(ctx, s.options()...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, connectors.Permanent(s.noConfig(err))
	}
	s.transport = client().GetTransport()
	if c, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		s.transport = c.GetTransport() // trusts what AWS_CA_BUNDLE names
	}
	s.transport.DisableKeepAlives, s.transport.ResponseHeaderTimeout = false, time.Minute
	loaded.HTTPClient = &http.Client{Transport: s.transport}
	if loaded.Region == "" {
		loaded.Region = "us-east-1"
	}
	if cfg.Endpoint != "" {
		loaded.BaseEndpoint = &cfg.Endpoint
	}
	if tune != nil {
		tune(&loaded)
	}
	s.aws = loaded
	if cfg.Role.ARN == "" {
		return s, nil
	}
	return s.As(cfg.Role), nil
}

// client is what asks for credentials. It keeps no connection, since Close does not reach it.
func client() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
}

func (s *Session) options() []func(*config.LoadOptions) error {
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client()),
		config.WithLogger(logging.Nop{}), // the SDK's lines are none of ours, and could hold what must not be logged
		config.WithAppID("idlewatt"),
	}
	if s.cfg.Region != "" {
		opts = append(opts, config.WithRegion(s.cfg.Region))
	}
	profile := s.cfg.Profile
	if s.cfg.CredentialsFile != "" {
		opts = append(opts, config.WithSharedCredentialsFiles([]string{s.cfg.CredentialsFile}))
		if profile == "" {
			profile = "default" // named, it goes before the environment
		}
	}
	if profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(profile))
	}
	return opts
}

// As is the session that has taken on a role, from the identity that s is.
func (s *Session) As(r Role) *Session {
	next := *s
	next.role = r.ARN
	next.aws = s.aws.Copy()
	next.aws.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(s.aws), r.ARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "idlewatt"
		if r.ExternalID != "" {
			o.ExternalID = &r.ExternalID
		}
	}))
	return &next
}

// In is the SDK's configuration for one region.
func (s *Session) In(region string) aws.Config {
	c := s.aws.Copy()
	c.Region = region
	return c
}

// Home is the region of questions that are about none.
func (s *Session) Home() string { return s.aws.Region }

// Account returns the account that the session asks for. It needs no right.
func (s *Session) Account(ctx context.Context) (string, error) {
	out, err := sts.NewFromConfig(s.aws).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", s.Failure(ctx, err, "sts:GetCallerIdentity", "")
	}
	id := aws.ToString(out.Account)
	if id == "" {
		return "", errors.New("sts:GetCallerIdentity: the answer names no account")
	}
	return id, nil
}

// Close leaves no connection behind, for all sessions that As made of it too.
func (s *Session) Close() { s.transport.CloseIdleConnections() }

// noConfig is an error of reading the AWS configuration. Its text is not passed on where it
// could quote a file of credentials.
func (s *Session) noConfig(err error) error {
	var p config.SharedConfigProfileNotExistError
	if errors.As(err, &p) {
		return fmt.Errorf("reading the AWS configuration: there is no profile %q: correct `profile:` or add it to %s", p.Profile, s.cfg.where())
	}
	return errors.New("reading the AWS configuration: it cannot be read; `aws sts get-caller-identity` with the same profile says more")
}
