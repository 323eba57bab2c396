package connectortest

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awsinventory"
	"github.com/idlewatt/idlewatt/connectors/awsprices"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
	"github.com/idlewatt/idlewatt/connectors/rest/awsapi/awstest"
)

func octoberNoon() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// awsinventoryFixture is two regions, one of them with the machines of the samples. Its clock
// stands.
func awsinventoryFixture(t *testing.T) connectors.Config {
	t.Helper()
	pages := map[string]string{
		"":       string(read(t, filepath.Join("..", "awsinventory", "testdata", "us-east-1.1.xml"))),
		"page-2": string(read(t, filepath.Join("..", "awsinventory", "testdata", "us-east-1.2.xml"))),
	}
	s := awstest.New(t, func(c awstest.Call) awstest.Answer {
		switch {
		case c.Action != "DescribeInstances":
			return awstest.EC2Error(400, "InvalidAction", c.Action)
		case c.Region == "us-east-1":
			return awstest.Answer{Body: pages[c.Form.Get("NextToken")]}
		}
		return awstest.Answer{Body: "<DescribeInstancesResponse/>"}
	})
	return &awsinventory.Config{
		Config: awsapi.Config{CredentialsFile: awstest.Credentials(t), Endpoint: s.URL}, Regions: []string{"us-east-1", "eu-central-1"}, OwnAccount: true, Now: octoberNoon,
	}
}

// awspricesFixture is one region with the spot prices of the samples and one product.
func awspricesFixture(t *testing.T) connectors.Config {
	t.Helper()
	var products []json.RawMessage
	must(t, json.Unmarshal(read(t, filepath.Join("..", "awsprices", "testdata", "products.json")), &products))
	list, err := json.Marshal(map[string]any{"FormatVersion": "aws_v1", "PriceList": []string{string(products[0])}})
	must(t, err)
	pages := map[string]string{
		"":       string(read(t, filepath.Join("..", "awsprices", "testdata", "spot.1.xml"))),
		"page-2": string(read(t, filepath.Join("..", "awsprices", "testdata", "spot.2.xml"))),
	}
	s := awstest.New(t, func(c awstest.Call) awstest.Answer {
		if c.Action == "GetProducts" {
			return awstest.Answer{Body: string(list)}
		}
		return awstest.Answer{Body: pages[c.Form.Get("NextToken")]}
	})
	return &awsprices.Config{
		Config: awsapi.Config{CredentialsFile: awstest.Credentials(t), Endpoint: s.URL}, Regions: []string{"us-east-1"}, InstanceTypes: []string{"p5.48xlarge"},
		OperatingSystems: []string{"Linux"}, Spot: true, History: time.Hour, Now: octoberNoon,
	}
}
