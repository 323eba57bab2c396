package awscur

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/idlewatt/idlewatt/connectors/rest/awsapi"
)

func TestFormatsByColumns(t *testing.T) {
	t.Parallel()
	for want, columns := range map[string]string{
		"aws-cur2":       `{"name":"bill_payer_account_name"},{"name":"line_item_line_item_type"},{"name":"line_item_unblended_cost"}`,
		"aws-cur-legacy": `{"category":"lineItem","name":"LineItemType"},{"category":"lineItem","name":"UnblendedCost"}`,
		"aws-focus":      `{"name":"BilledCost"},{"name":"ChargePeriodStart"},{"name":"ChargePeriodEnd"},{"name":"BillingPeriodStart"},{"name":"x_ServiceCode"},{"name":"x_Operation"}`,
		"aws-focus ":     `{"name":"BilledCost"},{"name":"ChargePeriodStart"},{"name":"ChargePeriodEnd"},{"name":"BillingPeriodStart"}`,
	} {
		l, err := readManifest([]byte(`{"columns":[`+columns+`],"dataFiles":["f"]}`), bucket, "")
		if err != nil || l.format != strings.TrimSpace(want) {
			t.Errorf("%s: %q, %v", want, l.format, err)
		}
	}
}

func TestManifestsThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                    "no such JSON",
		`[]`:                  "no such JSON",
		`{"columns":[]}`:      "neither dataFiles nor reportKeys",
		`{"dataFiles":["f"]}`: "no columns",
		`{"dataFiles":["s3://` + bucket + `"],"columns":[]}`: "names no file",
		`{"dataFiles":["d/"],"columns":[]}`:                  "names no file",
		`{"dataFiles":["https://x/y"]}`:                      "want s3://",
		`{"dataFiles":["s3://other/y"]}`:                     "bucket: other",
		`{"dataFiles":["f"],"columns":[{"name":"a"}]}`:       "no known AWS export",
	} {
		if _, err := readManifest([]byte(text), bucket, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if l, err := readManifest([]byte(`{"dataFiles":["f"]}`), bucket, "aws-cur2"); err != nil || l.format != "aws-cur2" {
		t.Errorf("a format that is said: %+v, %v", l, err)
	}
}

// Anything is a listing of sorted keys of this bucket, or an error.
func FuzzManifest(f *testing.F) {
	for _, name := range []string{"aws_cur2_manifest.json", "aws_cur_legacy_manifest.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add(list("s3://"+bucket+"/a", "b", "b"))
	f.Add([]byte(`{"dataFiles":[],"columns":[{"name":"BilledCost"},{"category":"a/b","name":""}],"bucket":"` + bucket + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := readManifest(text, bucket, "")
		if err != nil {
			return
		}
		if !slices.IsSorted(l.keys) || slices.Contains(l.keys, "") || !slices.Contains(formats(), l.format) || len(slices.Compact(slices.Clone(l.keys))) != len(l.keys) {
			t.Errorf("%q gave %+v", text, l)
		}
	})
}

func TestMonthsOfFolders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"BILLING_PERIOD=2026-10": "2026-10", "billing_period=2026-01": "2026-01", "Billing_Period=2026-12": "2026-12",
		"BILLING_PERIOD=2026-13": "", "BILLING_PERIOD=2026-1": "", "x": "", "20261001-20261101": "",
	} {
		if got := monthOf(kindExport, name); got != want {
			t.Errorf("export %s: %q", name, got)
		}
	}
	for name, want := range map[string]string{"20261001-20261101": "2026-10", "20260101-20260201": "2026-01", "20261301-20270101": "", "20261002-20261101": "", "gpuorg-cur": ""} {
		if got := monthOf(kindLegacy, name); got != want {
			t.Errorf("legacy %s: %q", name, got)
		}
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	t.Parallel()
	c := Config{
		Bucket: "s3://bills/x", Prefix: "s3://a", Export: "a/b", Kind: "new", Format: "focus", Since: "2026", CapacityBlock: "(", PathStyle: true,
		Config: awsapi.Config{Endpoint: "https://u:p@x", Role: awsapi.Role{ExternalID: "x"}},
	}
	err := c.Validate()
	for _, field := range []string{"bucket:", "prefix:", "export:", "kind:", "format:", "since:", "capacity_block:", "endpoint:", "role.external_id:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if (&Config{Kind: kindAuto}).Validate() == nil {
		t.Error("an empty section passes")
	}
	made := Factory().NewConfig()
	must(t, yaml.UnmarshalWithOptions(sample(t, "config.yaml"), made, yaml.Strict()))
	if got := made.(*Config); got.Role.ExternalID != "7c1f0e" || got.Profile != "billing" || got.Kind != kindAuto {
		t.Errorf("%+v", got)
	}
}
