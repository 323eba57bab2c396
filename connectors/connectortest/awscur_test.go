package connectortest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur"
	"github.com/idlewatt/idlewatt/connectors/awscur/buckettest"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

// awscurFixture is a bucket with the sample month.
func awscurFixture(t *testing.T) connectors.Config {
	t.Helper()
	b := buckettest.New(t, "gpuorg-billing")
	at := time.Date(2026, 11, 1, 6, 15, 0, 0, time.UTC)
	for key, body := range map[string][]byte{
		"data/BILLING_PERIOD=2026-10/gpuorg-cur2-00001.csv.gz":      buckettest.Gzip(read(t, filepath.Join("..", "awscur", "testdata", "aws_cur2.csv"))),
		"metadata/BILLING_PERIOD=2026-10/gpuorg-cur2-Manifest.json": read(t, filepath.Join("..", "awscur", "testdata", "aws_cur2_manifest.json")),
	} {
		b.Put("exports/gpuorg-cur2/"+key, body, at)
	}
	return &awscur.Config{
		Bucket: b.Name, Prefix: "exports", Export: "gpuorg-cur2", Kind: "auto", PathStyle: true,
		Config: awsapi.Config{CredentialsFile: buckettest.Credentials(t), Endpoint: b.URL},
	}
}
