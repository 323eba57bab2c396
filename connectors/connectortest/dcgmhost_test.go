package connectortest

import (
	"context"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/dcgmhost"
)

// hostEngine stands in for DCGM, which this suite is built without.
type hostEngine struct{}

func (hostEngine) Read(context.Context) ([]dcgmhost.Device, error) {
	return []dcgmhost.Device{{UUID: "GPU-a", Model: "NVIDIA H100 80GB HBM3", Values: []dcgmhost.Value{{Field: 203, At: time.Now(), Number: 83}}}}, nil
}

func dcgmhostFixture(t *testing.T) connectors.Config {
	t.Helper()
	return &dcgmhost.Config{Address: "127.0.0.1:5555", Node: "trn-07", Interval: 10 * time.Second, MaxAge: time.Minute, Engine: hostEngine{}}
}
