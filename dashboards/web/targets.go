package web

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idlewatt/idlewatt/dashboards/query"
)

// Of the answers of /v1/targets.
const (
	exporterPort = 9400
	// seenWithin is how long after its last sight a machine is still listed: an inventory
	// that cannot be asked for some hours must not end the scraping of its machines.
	seenWithin = 24 * time.Hour
)

// targetGroup is an entry of Prometheus' HTTP service discovery.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets lists the GPU machines that inventories see running, for Prometheus and for our own
// sources of type dcgm: GET /v1/targets?port=9400&source=NAME.
func (s *site) targets(w http.ResponseWriter, r *http.Request) {
	port := exporterPort
	if text := r.URL.Query().Get("port"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 65535 {
			http.Error(w, "port: want a number from 1 to 65535", http.StatusBadRequest)
			return
		}
		port = n
	}
	hosts, err := s.DB.Hosts(r.Context(), query.HostsQuestion{SeenSince: s.Now().Add(-seenWithin), Source: r.URL.Query().Get("source")})
	if err != nil {
		s.Log.ErrorContext(r.Context(), "listing targets", slog.String("error", err.Error()))
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	groups := []targetGroup{}
	seen := map[string]bool{}
	for _, h := range hosts {
		addr := address(h)
		if addr == "" || seen[h.ResourceID+"\x00"+addr] {
			continue
		}
		seen[h.ResourceID+"\x00"+addr] = true
		labels := map[string]string{"node": node(h), "resource": h.ResourceID, "provider": h.Provider, "region": h.Region, "name": h.Name, "source": h.Source}
		groups = append(groups, targetGroup{Targets: []string{net.JoinHostPort(addr, strconv.Itoa(port))}, Labels: labels})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(groups)
}

// address is where a machine is reached: its private address before any other, an address
// before a name, a full name before a short one; its id is no address.
func address(h query.HostsRow) string {
	best, rank := "", 0
	for _, name := range h.Hosts {
		n := 1
		ip, err := netip.ParseAddr(name)
		switch {
		case err == nil && ip.IsPrivate():
			n = 4
		case err == nil:
			n = 3
		case name == h.ResourceID || strings.ContainsAny(name, " /:"):
			continue
		case strings.Contains(name, "."):
			n = 2
		}
		if n > rank {
			best, rank = name, n
		}
	}
	return best
}

// node is the name that leads telemetry to the machine's bill: the resource id where the
// inventory lists it among the names, for no other machine has it.
func node(h query.HostsRow) string {
	if slices.Contains(h.Hosts, h.ResourceID) {
		return h.ResourceID
	}
	for _, name := range h.Hosts {
		if _, err := netip.ParseAddr(name); err != nil {
			return name
		}
	}
	return h.Hosts[0]
}
