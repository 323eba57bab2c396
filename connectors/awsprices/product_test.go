package awsprices

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/idlewatt/idlewatt/connectors"
)

var p5 = wanted{"us-east-1", "p5.48xlarge", "Linux"}

// Each case is the first product of the testdata with one text in another way.
func TestProducts(t *testing.T) {
	t.Parallel()
	plain := products(t)[0]
	for name, x := range map[string]struct {
		old, text string
		want      string // a price, "" for none, or "!" and a part of the error
	}{
		"as it is":                  {"", "", "55.04 USD"},
		"in China's money":          {`"USD": "55.0400000000"`, `"CNY": "380.1234567891"`, "380.1234567891 CNY"},
		"free of charge":            {"55.0400000000", "0.0000000000", ""},
		"another region":            {`"regionCode": "us-east-1"`, `"regionCode": "us-east-1-bos-1"`, ""},
		"dedicated":                 {`"tenancy": "Shared"`, `"tenancy": "Dedicated"`, ""},
		"unused reservation":        {`"capacitystatus": "Used"`, `"capacitystatus": "UnusedCapacityReservation"`, ""},
		"with SQL Server":           {`"preInstalledSw": "NA"`, `"preInstalledSw": "SQL Std"`, ""},
		"own licence":               {"No License required", "Bring your own license", ""},
		"no amount":                 {"55.0400000000", "", "!pricePerUnit.USD"},
		"no number":                 {"55.0400000000", "n/a", "!n/a"},
		"below zero":                {"55.0400000000", "-1", "!negative"},
		"too many digits":           {"55.0400000000", "0.0000000000000000001", "!more digits"},
		"no currency":               {`"USD": "55.0400000000"`, `"credits": "55"`, "!credits"},
		"by the month":              {`"unit": "Hrs", "endRange": "Inf", "description": "$`, `"unit": "Mo", "endRange": "Inf", "description": "$`, "!Mo"},
		"a tier":                    {`"endRange": "Inf", "description": "$`, `"endRange": "100", "description": "$`, "!tier"},
		"no date":                   {`"EXAMPLESKU000001", "effectiveDate": "2026-09-01T00:00:00Z", "offerTermCode": "JRTCKXETXF"`, `"EXAMPLESKU000001", "offerTermCode": "JRTCKXETXF"`, "!effectiveDate"},
		"an amount that is no text": {`"55.0400000000"`, `55.04`, "!reading a product of p5.48xlarge"},
		"cut":                       {`"version": "20260915000000", "publicationDate": "2026-09-15T00:00:00Z"`, "", "!reading a product"},
	} {
		text := plain
		if x.old != "" {
			if text = strings.Replace(plain, x.old, x.text, 1); text == plain {
				t.Fatalf("%s: %q is not in the sample", name, x.old)
			}
		}
		prices, err := parse(text, p5)
		want, failing := strings.CutPrefix(x.want, "!")
		switch {
		case failing:
			if err == nil || !strings.Contains(err.Error(), want) || len(prices) != 0 {
				t.Errorf("%s: %v, %v", name, prices, err)
			}
		case err != nil || (len(prices) == 1) != (want != ""):
			t.Errorf("%s: %v, %v", name, prices, err)
		case want != "" && prices[0].Rate.String()+" "+prices[0].Currency != want:
			t.Errorf("%s: %s %s", name, prices[0].Rate, prices[0].Currency)
		}
	}
}

func TestSpotPricesThatAreNone(t *testing.T) {
	t.Parallel()
	systems := map[string]string{"Linux/UNIX": "Linux"}
	right := types.SpotPrice{AvailabilityZone: aws.String("us-east-1b"), InstanceType: "p5.48xlarge", ProductDescription: "Linux/UNIX (Amazon VPC)", SpotPrice: aws.String("1.50"), Timestamp: aws.Time(noon)}
	if p, err := spotPrice(right, "us-east-1", "USD", systems); err != nil || p == nil || sayPrice(*p) != "spot us-east-1b p5.48xlarge Linux 1.5 USD from 10-01 12:00" {
		t.Errorf("%+v, %v", p, err)
	}
	for name, change := range map[string]func(*types.SpotPrice){
		"SpotPrice": func(s *types.SpotPrice) { s.SpotPrice = aws.String("1,5") },
		"zone":      func(s *types.SpotPrice) { s.AvailabilityZone = nil },
		"time":      func(s *types.SpotPrice) { s.Timestamp = nil },
	} {
		s := right
		change(&s)
		if p, err := spotPrice(s, "us-east-1", "USD", systems); p != nil || !connectors.IsPermanent(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	right.SpotPrice = aws.String("0.00")
	if p, err := spotPrice(right, "us-east-1", "USD", systems); p != nil || err != nil {
		t.Errorf("a price of zero: %+v, %v", p, err)
	}
}

// FuzzProduct reads any text as a product: a price that is positive and storable, none, or an
// error; never a panic.
func FuzzProduct(f *testing.F) {
	for _, text := range products(f) {
		f.Add(text)
		f.Add(strings.ReplaceAll(text, "Inf", "10"))
	}
	f.Add(`{}`)
	f.Add(`{"product":{"attributes":null},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{"USD":"1e400"}}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		prices, err := parse(text, p5)
		if err != nil && len(prices) != 0 {
			t.Errorf("prices and an error: %v, %v", prices, err)
		}
		for _, p := range prices {
			if !p.Rate.IsPositive() || p.ValidFrom.IsZero() || p.Currency == "" {
				t.Errorf("%+v", p)
			}
		}
		_, _ = single(prices)
	})
}
