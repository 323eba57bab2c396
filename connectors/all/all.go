// Package all lists every connector. Adding one is one line here and one folder beside it.
package all

import (
	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/awscur"
	"github.com/idlewatt/idlewatt/connectors/awsinventory"
	"github.com/idlewatt/idlewatt/connectors/awsprices"
	"github.com/idlewatt/idlewatt/connectors/crusoe"
	"github.com/idlewatt/idlewatt/connectors/dcgm"
	"github.com/idlewatt/idlewatt/connectors/dcgmhost"
	"github.com/idlewatt/idlewatt/connectors/eventfile"
	"github.com/idlewatt/idlewatt/connectors/files"
	"github.com/idlewatt/idlewatt/connectors/invoicefile"
	"github.com/idlewatt/idlewatt/connectors/kubernetes"
	"github.com/idlewatt/idlewatt/connectors/lambda"
	"github.com/idlewatt/idlewatt/connectors/nvidiasmi"
	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/connectors/runpod"
	"github.com/idlewatt/idlewatt/connectors/slurm"
	"github.com/idlewatt/idlewatt/connectors/together"
	"github.com/idlewatt/idlewatt/connectors/vast"
)

// Factories returns every connector, in the order of the README table.
func Factories() []connectors.Factory {
	return []connectors.Factory{
		files.Factory(),
		awscur.Factory(),
		awsinventory.Factory(),
		awsprices.Factory(),
		runpod.Factory(),
		vast.Factory(),
		lambda.Factory(),
		crusoe.Factory(),
		together.Factory(),
		dcgm.Factory(),
		dcgmhost.Factory(),
		prometheus.Factory(),
		slurm.Factory(),
		kubernetes.Factory(),
		nvidiasmi.Factory(),
		eventfile.Factory(),
		invoicefile.Factory(),
	}
}

// Formats returns every file format that a connector reads, by name.
func Formats() map[string]connectors.Format {
	out := map[string]connectors.Format{}
	for _, f := range Factories() {
		for _, x := range f.Formats {
			out[x.Name] = x
		}
	}
	return out
}
