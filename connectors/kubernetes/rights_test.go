package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestRightsAreThoseNeeded: the manifest lets read what a pull asks for, and nothing else.
func TestRightsAreThoseNeeded(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]string{} // resource.group to verb
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var o struct {
			Kind  string `yaml:"kind"`
			Rules []struct {
				Groups    []string `yaml:"apiGroups"`
				Resources []string `yaml:"resources"`
				Verbs     []string `yaml:"verbs"`
			} `yaml:"rules"`
		}
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, r := range o.Rules {
			for _, g := range r.Groups {
				for _, x := range r.Resources {
					given[x+"."+g] = strings.Join(r.Verbs, ",")
				}
			}
		}
	}
	stub := recorded(t)
	c := against(t, stub)
	if _, err := c.Pull(t.Context(), nil, &taker{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range stub.asked {
		parts := strings.Split(strings.Trim(path, "/"), "/")
		resource, verb := parts[len(parts)-1]+".", "list"
		if i := slices.Index(parts, "namespaces"); i > 0 {
			resource, verb = parts[i+2]+"."+parts[1], "get"
		}
		if given[resource] != verb {
			t.Errorf("%s wants %s of %s, the manifest gives %q", path, verb, resource, given[resource])
		}
	}
	for resource, verb := range given {
		if verb != "get" && verb != "list" || strings.HasPrefix(resource, "secrets") || strings.HasPrefix(resource, "configmaps") {
			t.Errorf("%s of %s is more than is needed", verb, resource)
		}
	}
}
