package runpod

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/idlewatt/idlewatt/schema/money"
)

// fake is a small RunPod with a clock of its own: pods that change their state over time, one
// network volume, and a bill that follows from both. It serves what v2 serves.
type fake struct {
	mu     sync.Mutex
	now    time.Time
	pods   []*fakePod
	volume int64 // GB of the one volume; 0 for none
	dense  bool  // zero rows too
	pageBy int   // rows per page of bills; 0: one page
	fault  func(path string) (status int, header http.Header, body string)
	extra  map[string]money.Decimal // "pod hour": what was billed later
	drop   string                   // amount that /v2/billing tells wrong
	asked  []string
	graph  string
	srv    *httptest.Server
}

// fakePod is RUNNING, EXITED or TERMINATED from a moment on; before the first it is not there.
type fakePod struct {
	id, name, gpu, cloud string
	count                int64
	rate                 string // USD per hour
	disk, volume         int64
	cluster              string
	util                 []int
	states               []fakeState
}

type fakeState struct {
	from   time.Time
	status string
}

const testKey = "s3cret-key-0123456789"

func newFake(t testing.TB, now time.Time) *fake {
	t.Helper()
	f := &fake{now: now, extra: map[string]money.Decimal{}}
	f.srv = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.srv.Close)
	return f
}

func (f *fake) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fake) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (p *fakePod) at(t time.Time) (status string, since time.Time) {
	for _, s := range p.states {
		if !s.from.After(t) {
			status, since = s.status, s.from
		}
	}
	return status, since
}

// spent is how long a pod was in a status within a period.
func (p *fakePod) spent(status string, from, to time.Time) time.Duration {
	var out time.Duration
	for i, s := range p.states {
		end := to
		if i+1 < len(p.states) {
			end = p.states[i+1].from
		}
		if s.status == status {
			out += overlap(s.from, end, from, to)
		}
	}
	return out
}

const micro = 6 // digits of the fake's amounts

func per(d time.Duration, rate money.Decimal) money.Decimal {
	return rate.Mul(decimal.NewFromInt(int64(d))).DivRound(decimal.NewFromInt(int64(time.Hour)), micro)
}

var (
	gbRunning = decimal.RequireFromString("0.10").DivRound(decimal.NewFromInt(720), 18)
	gbStopped = decimal.RequireFromString("0.20").DivRound(decimal.NewFromInt(720), 18)
	gbNetwork = decimal.RequireFromString("0.07").DivRound(decimal.NewFromInt(720), 18)
)

// owes is the truth: what a pod costs in an hour.
func (f *fake) owes(p *fakePod, from time.Time) (gpu, disk money.Decimal) {
	to := from.Add(time.Hour)
	gpu = per(p.spent(statusRunning, from, to), decimal.RequireFromString(p.rate)).Add(f.extra[p.id+from.Format(time.RFC3339)])
	run := decimal.NewFromInt(p.disk + p.volume).Mul(gbRunning)
	stop := decimal.NewFromInt(p.volume).Mul(gbStopped)
	return gpu, per(p.spent(statusRunning, from, to), run).Add(per(p.spent(statusExited, from, to), stop))
}

func (f *fake) owesVolume() money.Decimal {
	return per(time.Hour, decimal.NewFromInt(f.volume).Mul(gbNetwork))
}

// truth is the whole bill of a period of whole hours.
func (f *fake) truth(from, to time.Time) money.Decimal {
	var out money.Decimal
	for h := from; h.Before(to); h = h.Add(time.Hour) {
		for _, p := range f.pods {
			gpu, disk := f.owes(p, h)
			out = out.Add(gpu).Add(disk)
		}
		out = out.Add(f.owesVolume())
	}
	return out
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Date", f.now.Format(http.TimeFormat))
	w.Header().Set("RateLimit", `"minute";r=59;t=60, "hour";r=2999;t=3600`)
	f.asked = append(f.asked, r.URL.Path+"?"+r.URL.RawQuery)
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		problem(w, http.StatusUnauthorized, "bad key")
		return
	}
	if f.fault != nil {
		if status, header, body := f.fault(r.URL.Path); status != 0 {
			for k, v := range header {
				w.Header()[k] = v
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return
		}
	}
	switch {
	case r.URL.Path == "/pods":
		f.servePods(w, r)
	case r.URL.Path == "/network-volumes" && f.volume > 0:
		_, _ = fmt.Fprintf(w, `{"networkVolumes":[{"id":"vol1","name":"atlas--data","size":%d,"dataCenter":"US-KS-2","type":"STANDARD"}]}`, f.volume)
	case r.URL.Path == "/clusters" && slices.ContainsFunc(f.pods, func(p *fakePod) bool { return p.cluster != "" }):
		_, _ = fmt.Fprint(w, `{"clusters":[{"id":"clu1","name":"atlas--pretrain","compute":{"gpuTypeId":"NVIDIA H100 80GB HBM3","gpuCountPerPod":8,"podCount":2},"dataCenterId":"US-KS-2"}]}`)
	case r.URL.Path == "/serverless", r.URL.Path == "/network-volumes", r.URL.Path == "/clusters":
		_, _ = fmt.Fprintf(w, `{%q:[]}`, map[string]string{"/serverless": "endpoints", "/network-volumes": "networkVolumes", "/clusters": "clusters"}[r.URL.Path])
	case r.URL.Path == "/catalog/gpus":
		_, _ = fmt.Fprint(w, `{"gpus":[{"id":"NVIDIA GeForce RTX 4090","pool":"ADA_24","secure":true,"community":true,"price":{"secure":0.69,"community":0.34,"serverless":1.1}},
			{"id":"NVIDIA H100 80GB HBM3","pool":null,"secure":true,"community":false,"price":{"secure":2.69,"community":0.0}}]}`)
	case r.URL.Path == "/graphql" && f.graph != "":
		_, _ = fmt.Fprint(w, f.graph)
	case strings.HasPrefix(r.URL.Path, "/billing"):
		f.serveBill(w, r)
	default:
		problem(w, http.StatusNotFound, "no such route")
	}
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"title":%q,"status":%d,"detail":%q}`, http.StatusText(status), status, detail)
}

// podPage is few, so that lists have pages.
const podPage = 2

func (f *fake) servePods(w http.ResponseWriter, r *http.Request) {
	var all []string
	for _, p := range f.pods {
		status, since := p.at(f.now)
		if status == "" || status == "TERMINATED" || p.cluster != "" && r.FormValue("includeClusterPods") != "true" {
			continue
		}
		cost, runtime := "0.0", "null"
		if status == statusRunning {
			u, _ := json.Marshal(utils(p.util))
			cost, runtime = p.rate, `{"uptime":1,"gpus":`+string(u)+`}`
		}
		extra := ""
		if p.cluster != "" {
			extra = fmt.Sprintf(`,"cluster":{"id":%q,"rank":0}`, p.cluster)
		}
		mounts := `{}`
		if p.volume > 0 {
			mounts = fmt.Sprintf(`{"persistent":{"size":%d,"path":"/w"}}`, p.volume)
		}
		all = append(all, fmt.Sprintf(`{"id":%q,"name":%q,"status":%q,"cost":%s,"gpu":{"id":%q,"count":%d},"cloud":%q,"dataCenterId":"US-KS-2","disk":%d,
			"mounts":%s,"env":{"PROJECT":"atlas","HF_TOKEN":"hf_sEcReT"},"runtime":%s,"createdAt":%q,"startedAt":%q%s}`,
			p.id, p.name, status, cost, p.gpu, p.count, p.cloud, p.disk, mounts, runtime, p.states[0].from.Format(time.RFC3339Nano), since.Format(time.RFC3339Nano), extra))
	}
	from, _ := strconv.Atoi(r.FormValue("cursor"))
	to := min(from+podPage, len(all))
	next := "null"
	if to < len(all) {
		next = strconv.Quote(strconv.Itoa(to))
	}
	_, _ = fmt.Fprintf(w, `{"pods":[%s],"pagination":{"nextCursor":%s,"hasNextPage":%v}}`, strings.Join(all[from:to], ","), next, next != "null")
}

func utils(of []int) []map[string]int {
	out := []map[string]int{}
	for _, u := range of {
		out = append(out, map[string]int{"util": u, "memoryUtil": 1})
	}
	return out
}

// fakeRow is one record, its amounts by field.
type fakeRow struct {
	head    string
	amounts map[string]money.Decimal
}

func (f *fake) serveBill(w http.ResponseWriter, r *http.Request) {
	from, err1 := time.Parse(time.RFC3339, r.FormValue("startTime"))
	to, err2 := time.Parse(time.RFC3339, r.FormValue("endTime"))
	if r.FormValue("lastN") != "" {
		from, to, err1, err2 = f.now.Truncate(day), f.now.Truncate(day).Add(day), nil, nil
	}
	i := slices.IndexFunc(append([]*route{overall}, routes...), func(x *route) bool { return x.path == r.URL.Path })
	if err1 != nil || err2 != nil || i < 0 {
		problem(w, http.StatusBadRequest, "startTime, endTime or the route is wrong")
		return
	}
	x := append([]*route{overall}, routes...)[i]
	rows := f.rows(x, from, to)
	totals := map[string]money.Decimal{}
	for _, row := range rows {
		for k, v := range row.amounts {
			totals[k] = totals[k].Add(v)
		}
	}
	if f.drop != "" && x == overall {
		totals[f.drop] = totals[f.drop].Add(decimal.New(5, -1))
	}
	for _, p := range append([]part{{field: totalField}}, x.parts...) {
		totals[p.field] = totals[p.field].Add(decimal.Decimal{})
	}
	n, _ := strconv.Atoi(r.FormValue("cursor"))
	end, pages := len(rows), ""
	if f.pageBy > 0 && n+f.pageBy < len(rows) {
		end = n + f.pageBy
		pages = fmt.Sprintf(`,"pagination":{"nextCursor":"%d","hasNextPage":true}`, end)
	}
	var recs []string
	for _, row := range rows[n:end] {
		recs = append(recs, "{"+row.head+","+amountsText(row.amounts)+"}")
	}
	_, _ = fmt.Fprintf(w, `{"records":[%s],"metadata":{"query":{"startTime":%q,"endTime":%q,"bucketSize":"hour"},"recordCount":%d,"totals":{%s}}%s}`,
		strings.Join(recs, ","), from.Format(time.RFC3339), to.Format(time.RFC3339), len(rows), amountsText(totals), pages)
}

func amountsText(m map[string]money.Decimal) string {
	var out []string
	for k, v := range m {
		out = append(out, fmt.Sprintf("%q:%s", k, v))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// rows are the records of a route: hours up to now, those of zero only if dense.
func (f *fake) rows(x *route, from, to time.Time) []fakeRow {
	var out []fakeRow
	if x.name == "serverless" || x.name == "endpoints" || x.name == "clusters" {
		return nil
	}
	for h := from; h.Before(to) && !h.After(f.now); h = h.Add(time.Hour) {
		head := fmt.Sprintf(`"startTime":%q,"endTime":%q`, h.Format(time.RFC3339), h.Add(time.Hour).Format(time.RFC3339))
		add := func(id string, amounts map[string]money.Decimal) {
			var sum money.Decimal
			for _, p := range x.parts {
				if p.field != totalField {
					amounts[p.field] = amounts[p.field].Add(decimal.Decimal{})
					sum = sum.Add(amounts[p.field])
				}
			}
			amounts[totalField] = sum
			if f.dense || !sum.IsZero() {
				out = append(out, fakeRow{head + id, amounts})
			}
		}
		all := map[string]money.Decimal{}
		for _, p := range f.pods {
			gpu, disk := f.owes(p, h)
			all["podGpuAmount"], all["podDiskAmount"] = all["podGpuAmount"].Add(gpu), all["podDiskAmount"].Add(disk)
			if x.name == "pods" {
				add(fmt.Sprintf(`,"podId":%q`, p.id), map[string]money.Decimal{"gpuAmount": gpu, "diskAmount": disk})
			}
		}
		all["storageStandardAmount"] = f.owesVolume()
		switch x.name {
		case "network-volumes":
			add(`,"networkVolumeId":"vol1"`, map[string]money.Decimal{"standardAmount": f.owesVolume()})
		case "billing":
			add("", all)
		}
	}
	return out
}
