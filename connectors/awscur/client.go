package awscur

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// session is one pull's way to the bucket.
type session struct {
	*connector
	aws *awsapi.Session
	s3  *s3.Client
}

func (c *connector) open(ctx context.Context) (*session, error) {
	a, err := awsapi.Open(ctx, c.cfg.Config, c.tune)
	if err != nil {
		return nil, err
	}
	return &session{connector: c, aws: a, s3: s3.NewFromConfig(a.In(a.Home()), func(o *s3.Options) {
		o.UsePathStyle = c.cfg.PathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
	})}, nil
}

// close leaves no connection behind.
func (s *session) close() { s.aws.Close() }
