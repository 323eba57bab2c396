package connectortest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idlewatt/idlewatt/connectors"
	"github.com/idlewatt/idlewatt/connectors/prometheus"
)

// prometheusFixture is a server with an hour of one GPU, scraped every 30 s, that ended a
// while ago.
func prometheusFixture(t *testing.T) connectors.Config {
	t.Helper()
	to := time.Now().Add(-30 * time.Minute).Truncate(time.Hour)
	from := to.Add(-time.Hour)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.FormValue("query"), "ms]") {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		}
		_, length, _ := strings.Cut(r.FormValue("query"), "}[")
		ms, _ := strconv.ParseInt(strings.TrimSuffix(length, "ms]"), 10, 64)
		end, _ := strconv.ParseFloat(r.FormValue("time"), 64)
		var values []string
		for at := from; at.Before(to); at = at.Add(30 * time.Second) {
			if s := float64(at.Unix()); s <= end && s >= end-float64(ms)/1000 {
				values = append(values, fmt.Sprintf(`[%d,"%d"]`, at.Unix(), at.Minute()))
			}
		}
		result := ""
		if len(values) > 0 {
			result = `{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-1","instance":"n1:9400","job":"gpu"},"values":[` + strings.Join(values, ",") + `]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, result)
	}))
	t.Cleanup(srv.Close)
	return &prometheus.Config{
		URL: srv.URL, Since: from.Add(-time.Minute).UTC().Format(time.RFC3339), Chunk: 20 * time.Minute,
		Timeout: 10 * time.Second, MaxBody: 1 << 20, Lag: time.Minute,
	}
}
