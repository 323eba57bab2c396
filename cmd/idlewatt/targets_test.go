package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A machine that an inventory sees is scraped without being listed anywhere, and its samples
// are those of its resource whatever the exporter calls its host.
func TestInventoryMachinesAreScraped(t *testing.T) {
	t.Parallel()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-found-0",modelName="NVIDIA H100 80GB HBM3",Hostname="dcgm-exporter-x7k2"} 83`+"\n")
	}))
	t.Cleanup(exporter.Close)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(exporter.URL, "http://"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := ln.Addr().String()
	_ = ln.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("idlewatt.yaml", fmt.Sprintf("http: {listen: %q}\nsources:\n  - {name: gpus, type: dcgm, every: 1s, refresh: 1s, http_sd: \"http://%s/v1/targets?port=%s\"}\n", listen, listen, port))
	now := time.Now().UTC().Truncate(time.Second)
	line := func(kind string, data map[string]any) string {
		text, err := json.Marshal(map[string]any{"specversion": "1.0", "id": kind, "type": kind, "source": "test/ec2", "time": now, "data": data})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	events := write("inventory.jsonl", line("inventory.instance", map[string]any{
		"source": "ec2", "resource_id": "i-0found", "provider": "aws", "instance_type": "p5.48xlarge", "gpu_model": "H100", "gpu_count": "8",
		"hosts": []string{"i-0found", "trn-07", "127.0.0.1"}, "pricing_model": "on_demand", "seen_from": now.Add(-time.Hour),
	})+line("inventory.poll", map[string]any{"source": "ec2", "provider": "aws", "at": now, "running": 1}))
	idlewatt(t, dir, "import", "--source", "ec2", "--format", "events", events)
	up := startUp(t, dir, "")
	var out []byte
	defer func() {
		if t.Failed() {
			t.Logf("query said %s\nup said:\n%s", out, up.out)
		}
	}()
	// A query before that would start the engines itself, and take them from it.
	eventually(t, "the instance", func() bool { return strings.Contains(up.out.String(), "idlewatt is up") })
	eventually(t, "a sample of the machine", func() bool {
		out, _ = exec.Command("idlewatt", "--data", filepath.Join(dir, "data"), "query", "SELECT DISTINCT Node FROM idlewatt.gpu_intervals WHERE GpuUuid = 'GPU-found-0'").CombinedOutput()
		return strings.TrimSpace(string(out)) == "i-0found"
	})
}
