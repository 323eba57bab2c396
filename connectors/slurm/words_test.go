package slurm

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idlewatt/idlewatt/connectors"
)

func TestHostLists(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"trn-[01-03,07]":      "trn-01 trn-02 trn-03 trn-07",
		"a,b[9-11],c":         "a b9 b10 b11 c",
		"rack[1-2]n[3,5]-ib":  "rack1n3-ib rack1n5-ib rack2n3-ib rack2n5-ib",
		"n[098-101]":          "n098 n099 n100 n101",
		"":                    "",
		"None assigned":       "",
		"n[1-":                "error",
		"n]1[":                "error",
		"n[3-1]":              "error",
		"n[1,x]":              "error",
		"a,,b":                "error",
		"n[0-99999999]":       "error",
		"n[0-999]m[0-999]":    "error",
		"n[0-99][0-99][0-99]": "error",
		"n[18446744073709551615-18446744073709551616]": "error",
	} {
		hosts, err := expand(list)
		got := strings.Join(hosts, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", list, got, want, err)
		}
	}
}

func FuzzHostLists(f *testing.F) {
	for _, s := range []string{"trn-[01-03,07]", "a,b[9-11],c", "n[1-", "[", "a[1]b[2]", "None assigned"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := expand(list)
		if err != nil {
			return
		}
		if len(hosts) > maxHosts {
			t.Fatalf("%d hosts", len(hosts))
		}
		for _, h := range hosts {
			if strings.TrimSpace(h) == "" || strings.ContainsAny(h, "[],") {
				t.Errorf("%q has the host %q", list, h)
			}
		}
	})
}

// FuzzAnswers feeds the reader with anything: no panic, and what is left out has a reason.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"sacct-24.11.json", "sacct-21.08.json", "nodes-24.11.json", "running-24.11.json"} {
		b := file(f, name)
		f.Add(b[:min(len(b), 6000)])
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = decodeFile(t.Context(), connectors.File{
			Name: "file", Source: "s", Now: night, Body: bytes.NewReader(b),
			Bad: func(_ context.Context, raw []byte, reason error) error {
				if len(raw) == 0 || reason == nil {
					t.Error("left out without a reason")
				}
				return nil
			},
		}, &taker{})
		sniff(b)
		if nodes, detail, ok := strings.Cut(string(b), "\n"); ok {
			h := held{Nodes: nodes, Detail: strings.Split(detail, "\n"), State: words{"RUNNING"}, JobID: number{1, true}, Start: number{1, true}}
			h.uuids(map[string][]string{"n1": {"GPU-1"}})
		}
	})
}

func TestStates(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"IDLE": "available", "ALLOCATED": "available", "MIXED PLANNED": "available", "IDLE RESERVED": "available",
		"IDLE DRAIN": "drained", "DRAINED": "drained", "MIXED DRAIN": "cordoned", "ALLOCATED DRAIN": "cordoned", "DRAINING": "cordoned",
		"DOWN": "failed", "DOWN DRAIN": "failed", "IDLE NOT_RESPONDING": "failed", "FAIL": "failed", "UNKNOWN": "failed", "IDLE INVALID_REG": "failed",
		"DOWN MAINTENANCE": "maintenance", "IDLE MAINT DRAIN": "maintenance", "DOWN REBOOT_ISSUED": "maintenance",
		"IDLE POWERED_DOWN NOT_RESPONDING": "available", "FUTURE": "", "": "",
	} {
		if got, _ := words(strings.Fields(in)).nodeState(); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"COMPLETED": "COMPLETED", "COMPLETED COMPLETING": "COMPLETED", "BOOT_FAIL": "NODE_FAIL", "DEADLINE": "TIMEOUT", "RUNNING": "-",
		"PENDING REQUEUED": "PREEMPTED", "PENDING": "-", "PENDING REVOKED": "CANCELLED", "FAILED": "FAILED", "PENDING RESIZING": "", "SOMETHING_NEW": "-",
	} {
		got, ended := words(strings.Fields(in)).outcome("")
		if !ended {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestIndexesNeedTheMap(t *testing.T) {
	t.Parallel()
	gres := map[string][]string{"n1": {"A", "B", "C", "D"}, "n2": {"E", "F"}}
	h := func(nodes string, detail ...string) held {
		return held{JobID: number{7, true}, Start: number{9, true}, State: words{"RUNNING"}, Nodes: nodes, Detail: detail}
	}
	for _, x := range []struct {
		h    held
		want string
	}{
		{h("n1", "gpu:h100:3(IDX:0,2-3)"), "7@9 [A C D]"},
		{h("n[1-2]", "gpu:2(IDX:0-1)", "gpu:1(IDX:1)"), "7@9 [A B F]"},
		{h("n1", "shard:4(2/8,2/8),gpu:h100:1(IDX:1)"), "7@9 [B]"},
		{h("n1", "nic:1(IDX:0)"), " []"},
		{h("n2", "gpu:2(IDX:0-3)"), " []"},
		{h("n3", "gpu:1(IDX:0)"), " []"},
		{h("n[1-2]", "gpu:1(IDX:0)"), " []"},
		{h("n1", "gpu:1(IDX:N/A)"), " []"},
	} {
		key, got := x.h.uuids(gres)
		if text := fmt.Sprint(key, " ", got); text != x.want {
			t.Errorf("%+v: %s, want %s", x.h, text, x.want)
		}
	}
}

func TestCommentsSayWhose(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"project=llm": "llm", "team=a;Project='llm' x": "llm", "a,project=x=y": "x=y", "projects=llm": "", "": "",
	} {
		if diff := cmp.Diff(want, said(in, "project")); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}
