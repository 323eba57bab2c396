package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/exp/api/remote"

	"github.com/idlewatt/idlewatt/connectors/prometheus"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

// WriteDoor takes Prometheus remote write, version 1 and 2, at POST /v1/write. It keeps the
// GPU series of a request on the bus before it answers; Writes puts scrapes together of them.
//
// A body that is wrong is answered with 400, which Prometheus does not send again; a bus that
// does not take it with 503, which it does, for as long as its own log reaches back.
type WriteDoor struct {
	Publisher
	// Token must come as a bearer token, or as the password of any user.
	Token string
	// Observe is told what each request held; may be nil.
	Observe func(prometheus.Written)
}

func (d WriteDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is taken here", http.StatusMethodNotAllowed)
		return
	}
	if !d.allowed(r) {
		w.Header().Set("WWW-Authenticate", `Bearer, Basic realm="idlewatt"`)
		http.Error(w, "a write token is needed: as bearer token (authorization: credentials_file), or as password (basic_auth: password_file)", http.StatusUnauthorized)
		return
	}
	decode, v2, err := decoder(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, prometheus.MaxBody))
	if err != nil {
		// Sent again it would be as long: 400 and its like end that, a lost connection does not read it.
		http.Error(w, fmt.Sprintf("reading the body (at most %d bytes): %v", prometheus.MaxBody, err), http.StatusRequestEntityTooLarge)
		return
	}
	written, err := decode(body)
	if err != nil {
		written.count(w, v2, false)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := d.keep(r, written.Written); err != nil {
		written.count(w, v2, false)
		http.Error(w, "the event log does not take samples now; send them again", http.StatusServiceUnavailable)
		return
	}
	if d.Observe != nil {
		d.Observe(written.Written)
	}
	written.count(w, v2, true)
	w.WriteHeader(http.StatusNoContent)
}

func (d WriteDoor) allowed(r *http.Request) bool {
	if _, password, ok := r.BasicAuth(); ok {
		return equal(password, d.Token)
	}
	return Door{Token: d.Token}.allowed(r)
}

// written is a request's content with the headers that tell of it.
type written struct{ prometheus.Written }

// count tells a sender of version 2 what was taken. What says nothing of a GPU was taken too:
// it is not wanted, and sending it again would not change that.
func (x written) count(w http.ResponseWriter, v2, taken bool) {
	if !v2 {
		return // an older Prometheus would take the headers for an error
	}
	samples := 0
	if taken {
		samples = x.Samples
	}
	h := w.Header()
	h.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(samples))
	h.Set("X-Prometheus-Remote-Write-Histograms-Written", "0")
	h.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
}

// decoder chooses the reader of a body by its headers, as the specification says.
func decoder(r *http.Request) (decode func([]byte) (written, error), v2 bool, err error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != "snappy" {
		return nil, false, fmt.Errorf("Content-Encoding %q is not taken: want snappy", c)
	}
	kind := remote.WriteV1MessageType
	if c := r.Header.Get("Content-Type"); c != "" {
		if kind, err = remote.ParseProtoMsg(strings.ReplaceAll(c, " ", "")); err != nil {
			return nil, false, err
		}
	}
	read := prometheus.DecodeV1
	if v2 = kind == remote.WriteV2MessageType; v2 {
		read = prometheus.DecodeV2
	}
	return func(body []byte) (written, error) {
		x, err := read(body)
		return written{x}, err
	}, v2, nil
}

// keep puts the GPU series on the bus. A request that is sent again has the same ids.
func (d WriteDoor) keep(r *http.Request, x prometheus.Written) error {
	events := make([]event.Event, 0, len(x.Parts))
	for _, p := range x.Parts {
		sum := sha256.Sum256(p)
		e, err := event.New(event.TypeGPUWrite, "idlewatt/remote-write", hex.EncodeToString(sum[:]), "", d.Now(), event.GPUWrite{Part: p})
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	return bus.PublishAll(r.Context(), d.JS, events)
}
