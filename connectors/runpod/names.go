package runpod

import (
	"regexp"
	"strings"

	"github.com/idlewatt/idlewatt/schema/catalog"
)

// formFactor is the tail of a GPU type's id that tells memory or socket and no other model.
var formFactor = regexp.MustCompile(`( HBM[0-9a-z]*| OAM| SXM[0-9]*)$`)

// models are ids whose catalogue word does not follow from their letters.
var models = map[string]string{
	"NVIDIA A100-SXM4-80GB":   "A100 80GB",
	"NVIDIA A100-SXM4-40GB":   "A100 40GB",
	"AMD Instinct MI300X OAM": "MI300X",
	"Tesla V100-PCIE-16GB":    "V100 16GB",
	"Tesla V100-SXM2-16GB":    "V100 16GB",
	"Tesla V100-SXM2-32GB":    "V100 32GB",
	"Tesla V100-FHHL-16GB":    "V100 16GB",
}

// model writes a GPU type's id (`NVIDIA H100 80GB HBM3`) in the catalogue's words (`H100`).
func model(id string) string {
	if m, ok := models[id]; ok {
		return m
	}
	short := catalog.ShortModel(strings.Replace(formFactor.ReplaceAllString(id, ""), "GeForce ", "", 1))
	return strings.TrimSpace(strings.TrimSuffix(short, " Generation"))
}

// projectOf is what the configured expression finds in a name.
func (c *Config) projectOf(name string) string {
	if c.ProjectFromName == "" {
		return ""
	}
	re, err := regexp.Compile(c.ProjectFromName)
	if err != nil {
		return "" // refused by Validate
	}
	m := re.FindStringSubmatch(name)
	if i := re.SubexpIndex("project"); m != nil && i >= 0 {
		return m[i]
	}
	return ""
}
