package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// placeholders are the words that the JSON files have where the module has variables.
func placeholders() map[string]cty.Value {
	return map[string]cty.Value{
		"account": cty.StringVal("111122223333"), "bucket": cty.StringVal("my-billing"), "prefix": cty.StringVal("exports"),
		"role_name": cty.StringVal("idlewatt"), "trusted_principal": cty.StringVal("arn:aws:iam::999900001111:role/idlewatt-host"),
		"external_id":          cty.StringVal("chosen-by-you"),
		"member_roles":         cty.TupleVal([]cty.Value{cty.StringVal("arn:aws:iam::222233334444:role/idlewatt")}),
		"manage_bucket_policy": cty.True,
	}
}

// terraform parses a file of the module.
func terraform(t *testing.T, name string) *hclsyntax.Body {
	t.Helper()
	f, diags := hclparse.NewParser().ParseHCLFile(filepath.Join("aws", name))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body.(*hclsyntax.Body)
}

// locals evaluates the module's locals with the placeholders. They lean on each other: what
// cannot be evaluated yet is tried again when others are known.
func locals(t *testing.T, vars map[string]cty.Value) map[string]cty.Value {
	t.Helper()
	left := map[string]hclsyntax.Expression{}
	for _, b := range terraform(t, "main.tf").Blocks {
		if b.Type == "locals" {
			for name, a := range b.Body.Attributes {
				left[name] = a.Expr
			}
		}
	}
	known := map[string]cty.Value{}
	for len(left) > 0 {
		ctx := &hcl.EvalContext{
			Variables: map[string]cty.Value{"var": cty.ObjectVal(vars), "local": cty.ObjectVal(known)},
			Functions: map[string]function.Function{"concat": stdlib.ConcatFunc, "length": stdlib.LengthFunc},
		}
		before := len(left)
		var last hcl.Diagnostics
		for name, e := range left {
			v, diags := e.Value(ctx)
			if diags.HasErrors() {
				last = diags
				continue
			}
			known[name] = v
			delete(left, name)
		}
		if len(left) == before {
			t.Fatal(last)
		}
	}
	return known
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func rendered(t *testing.T, v cty.Value) any {
	t.Helper()
	text, err := stdlib.JSONEncode(v)
	if err != nil {
		t.Fatal(err)
	}
	return document(t, []byte(text.AsString()))
}

// The module's policies are those of the JSON files.
func TestTerraformAndJSONPoliciesAgree(t *testing.T) {
	t.Parallel()
	known := locals(t, placeholders())
	for local, file := range map[string]string{
		"policy": "policy.json", "trust_policy": "trust-policy.json", "bucket_policy": "bucket-policy.json", "member_policy": "member-policy.json",
	} {
		text, err := os.ReadFile(filepath.Join("aws", file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(document(t, text), rendered(t, known[local])); diff != "" {
			t.Errorf("%s and local.%s (-json +terraform):\n%s", file, local, diff)
		}
	}
	vars := placeholders()
	vars["prefix"], vars["member_roles"] = cty.StringVal(""), cty.EmptyTupleVal
	text, err := json.Marshal(rendered(t, locals(t, vars)["policy"]))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "sts:AssumeRole") || !strings.Contains(string(text), `"arn:aws:s3:::my-billing/*"`) {
		t.Errorf("without prefix and members: %s", text)
	}
}

// Every variable is declared, used and described, and the resources use what is tested here.
func TestTerraformModuleIsWhole(t *testing.T) {
	t.Parallel()
	main := terraform(t, "main.tf")
	var declared []string
	for _, b := range terraform(t, "variables.tf").Blocks {
		declared = append(declared, b.Labels[0])
		if b.Body.Attributes["description"] == nil || b.Body.Attributes["type"] == nil {
			t.Errorf("variable %s wants a description and a type", b.Labels[0])
		}
	}
	slices.Sort(declared)
	if want := slices.Sorted(maps.Keys(placeholders())); !slices.Equal(declared, want) {
		t.Errorf("variables %v, want %v", declared, want)
	}
	text, err := os.ReadFile("aws/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`var\.([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
		used[m[1]] = true
	}
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, declared) {
		t.Errorf("variables used %v, declared %v", got, declared)
	}
	want := map[string]string{"aws_iam_role": "assume_role_policy=local.trust_policy", "aws_iam_role_policy": "policy=local.policy", "aws_s3_bucket_policy": "policy=local.bucket_policy"}
	for _, b := range main.Blocks {
		if b.Type != "resource" {
			continue
		}
		attr, local, _ := strings.Cut(want[b.Labels[0]], "=")
		a := b.Body.Attributes[attr]
		if a == nil || string(a.Expr.Range().SliceBytes(text)) != "jsonencode("+local+")" {
			t.Errorf("resource %s does not use %s", b.Labels[0], local)
		}
		delete(want, b.Labels[0])
	}
	if len(want) > 0 {
		t.Errorf("resources missing: %v", want)
	}
	terraform(t, "outputs.tf")
}
