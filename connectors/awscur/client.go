package awscur

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/idlewatt/idlewatt/connectors"
)

// session is one pull's way to AWS. Credentials are read anew for each, so that rotated files
// are seen.
type session struct {
	*connector
	s3        *s3.Client
	sts       *sts.Client
	transport *http.Transport
}

func (c *connector) open(ctx context.Context) (*session, error) {
	s := &session{connector: c}
	cfg, err := config.LoadDefaultConfig(ctx, c.options()...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, connectors.Permanent(s.noConfig(err))
	}
	s.transport = awshttp.NewBuildableClient().GetTransport()
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok { // with the certificates of AWS_CA_BUNDLE
		s.transport = b.GetTransport()
	}
	s.transport.DisableKeepAlives = false
	s.transport.ResponseHeaderTimeout = time.Minute
	cfg.HTTPClient = &http.Client{Transport: s.transport, CheckRedirect: noRedirect}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	if c.cfg.Role.ARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), c.cfg.Role.ARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = "idlewatt"
			if id := c.cfg.Role.ExternalID; id != "" {
				o.ExternalID = &id
			}
		})
		cfg.Credentials = aws.NewCredentialsCache(role)
	}
	s.sts = sts.NewFromConfig(cfg)
	s.s3 = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = c.cfg.PathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
		if c.cfg.Endpoint != "" {
			o.BaseEndpoint = &c.cfg.Endpoint
		}
	})
	return s, nil
}

func (c *connector) options() []func(*config.LoadOptions) error {
	// What looks for credentials keeps no connection: nobody would close it.
	lookup := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(lookup),
		config.WithLogger(logging.Nop{}), // the SDK's lines are none of ours, and could hold what must not be logged
		config.WithAppID("idlewatt"),
	}
	if c.cfg.Region != "" {
		opts = append(opts, config.WithRegion(c.cfg.Region))
	}
	profile := c.cfg.Profile
	if c.cfg.CredentialsFile != "" {
		opts = append(opts, config.WithSharedCredentialsFiles([]string{c.cfg.CredentialsFile}))
		if profile == "" {
			profile = "default" // named, it goes before the environment
		}
	}
	if profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(profile))
	}
	return opts
}

// noRedirect keeps the answer that says where the bucket is.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// close leaves no connection behind.
func (s *session) close() { s.transport.CloseIdleConnections() }
