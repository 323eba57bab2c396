package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type group struct {
	Targets []string
	Labels  map[string]string
}

// The list is what a scraper needs: where GPU machines that run are reached, and what they are
// called where bills are read.
func TestTargets(t *testing.T) {
	t.Parallel()
	db := open(t)
	s := serve(t, db)
	const row = "INSERT INTO idlewatt.running (x_Source, Provider, RegionId, ResourceId, ResourceName, ResourceType, x_GpuModel, x_GpuCount, SeenUntil, Hosts) VALUES "
	for _, r := range []string{
		"('lab', 'lambda', 'us-west-1', 'a1b2', 'gpu-box', 'machine', 'H100', 8, '2026-05-31 09:00:00', ['203.0.113.7', 'gpu-box.example.com'])",
		"('ec2', 'aws', 'us-east-1', 'i-0def', '', 'machine', 'H100', 8, '2026-05-31 09:00:00', ['i-0def', 'ip-10-0-1-6.ec2.internal', '54.1.1.1', '10.0.1.6'])",
		"('ec2', 'aws', 'us-east-1', 'i-0cpu', '', 'machine', '', NULL, '2026-05-31 09:00:00', ['i-0cpu', '10.0.1.7'])",
		"('ec2', 'aws', 'us-east-1', 'i-0id', '', 'machine', 'H100', 8, '2026-05-31 09:00:00', ['i-0id'])",
		"('ec2', 'aws', 'us-east-1', 'vol-1', '', 'volume', 'H100', 8, '2026-05-31 09:00:00', ['vol-1', '10.0.1.8'])",
		"('ec2', 'aws', 'us-east-1', 'i-0gone', '', 'machine', 'H100', 8, '2026-05-29 09:00:00', ['i-0gone', '10.0.1.9'])",
	} {
		if err := db.Exec(t.Context(), row+r); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(path string) (got []group) {
		t.Helper()
		resp, body := get(t, s, http.MethodGet, path)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got == nil {
			t.Fatalf("%s: %v in %s", path, err, body)
		}
		return got
	}
	want := []group{
		{[]string{"10.0.1.6:9400"}, map[string]string{"node": "i-0def", "resource": "i-0def", "provider": "aws", "region": "us-east-1", "name": "", "source": "ec2"}},
		{[]string{"203.0.113.7:9400"}, map[string]string{"node": "gpu-box.example.com", "resource": "a1b2", "provider": "lambda", "region": "us-west-1", "name": "gpu-box", "source": "lab"}},
	}
	if diff := cmp.Diff(want, ask("/v1/targets")); diff != "" {
		t.Error(diff)
	}
	if got := ask("/v1/targets?source=lab&port=9445"); len(got) != 1 || got[0].Targets[0] != "203.0.113.7:9445" {
		t.Errorf("%+v", got)
	}
	if got := ask("/v1/targets?source=none"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if resp, body := get(t, s, http.MethodGet, "/v1/targets?port=x"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "port") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if err := db.Exec(t.Context(), "DROP TABLE idlewatt.running"); err != nil {
		t.Fatal(err)
	}
	if resp, body := get(t, s, http.MethodGet, "/v1/targets"); resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "idlewatt.running") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
