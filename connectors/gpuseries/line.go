package gpuseries

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on labels, whatever the exporter prints.
const (
	maxLabels   = 128 // a line with more is not believed
	maxKept     = 32  // owner labels kept per line
	maxLabelLen = 256 // of a value that is kept
)

var (
	errSyntax  = errors.New("not a sample line")
	errHostile = errors.New("label too long or not printable")
	errValue   = errors.New("value is not a number")
	errCut     = errors.New("line has no end: the text was cut")
)

// series is one sample line: a name, its labels, and value and time as printed.
type series struct {
	name   string
	labels *labels
	text   string // the value as printed
	value  float64
	stamp  int64 // milliseconds since 1970, 0 if the line has none
}

// labels is what idlewatt wants to know of a line's label set. Lines with the same labels
// share one value, so that pointers tell duplicates.
type labels struct {
	uuid, instance, profile, model, host string

	pod, namespace, container, podUID        string
	exPod, exNamespace, exContainer, exPodID string

	hpcJob, vgpu, job, endpoint string
	origin                      string // which Prometheus, where several send
	node                        string // by a label that the configuration names
	oldDriver, newDriver        bool
	kept                        map[string]string
}

// lineReader parses lines and remembers label sets: an exporter repeats the same text in
// every family.
type lineReader struct {
	allow  map[string]bool
	byText map[string]*labels
	byKey  map[string]*labels
}

func newLineReader(allow map[string]bool) *lineReader {
	return &lineReader{allow: allow, byText: map[string]*labels{}, byKey: map[string]*labels{}}
}

// parse reads one line that is neither empty nor a comment. It never guesses where a label
// ends: the exporter does not escape quotes, and a wrong guess bills the wrong team.
func (r *lineReader) parse(line string) (series, error) {
	end := 0
	for end < len(line) && nameByte(line[end], end) {
		end++
	}
	if end == 0 || end == len(line) {
		return series{}, errSyntax
	}
	s, rest := series{name: line[:end]}, line[end:]
	var err error
	if rest[0] == '{' {
		if s.labels, rest, err = r.labelSet(rest[1:]); err != nil {
			return series{}, err
		}
	} else {
		s.labels = r.intern("", nil)
	}
	return s, s.numbers(rest)
}

func nameByte(c byte, at int) bool {
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || at > 0 && c >= '0' && c <= '9'
}

// numbers reads what follows the labels: a value and perhaps a time. An exemplar is ignored.
func (s *series) numbers(rest string) error {
	if i := strings.Index(rest, " # {"); i >= 0 {
		rest = rest[:i]
	}
	if rest == "" || rest[0] != ' ' && rest[0] != '\t' {
		return errSyntax
	}
	value, stamp, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if value == "" {
		return errSyntax
	}
	var ok bool
	if s.value, ok = parseValue(value); !ok {
		return errValue
	}
	s.text = value
	stamp = strings.TrimSpace(stamp)
	if stamp == "" {
		return nil
	}
	ms, err := parseStamp(stamp)
	s.stamp = ms
	return err
}

// parseStamp reads milliseconds (Prometheus text) or seconds (OpenMetrics).
func parseStamp(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	const year2286 = 1e10 // in seconds; in milliseconds that is April 1970
	if err != nil || !(f > 0) || f > year2286*1000 {
		return 0, errSyntax
	}
	if f < year2286 {
		f *= 1000
	}
	return int64(f), nil
}

// labelSet reads the text after the opening brace.
func (r *lineReader) labelSet(s string) (*labels, string, error) {
	if i := strings.LastIndexByte(s, '}'); i >= 0 {
		if l, ok := r.byText[s[:i]]; ok {
			return l, s[i+1:], nil
		}
	}
	pairs, n, err := scanLabels(s)
	if err != nil {
		return nil, "", err
	}
	l, err := r.remember(s[:n], pairs)
	return l, s[n+1:], err
}

func (r *lineReader) remember(text string, pairs []pair) (*labels, error) {
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	var key strings.Builder
	for i, p := range pairs {
		if i > 0 && pairs[i-1].name == p.name {
			return nil, errSyntax
		}
		if p.value != "" { // an empty label is an absent label
			fmt.Fprintf(&key, "%s\x00%s\x00", p.name, p.value)
		}
	}
	if l, ok := r.byKey[key.String()]; ok {
		r.byText[text] = l
		return l, nil
	}
	l := &labels{}
	for _, p := range pairs {
		if err := l.set(p, r.allow); err != nil {
			return nil, err
		}
	}
	r.byText[text], r.byKey[key.String()] = l, l
	return l, nil
}

// intern returns the label set for pairs that need no checking.
func (r *lineReader) intern(text string, pairs []pair) *labels {
	if l, ok := r.byText[text]; ok {
		return l
	}
	l, err := r.remember(text, pairs)
	if err != nil {
		return &labels{}
	}
	return l
}

type pair struct{ name, value string }

// scanLabels reads name="value" pairs up to the closing brace and returns its position.
func scanLabels(s string) (pairs []pair, end int, err error) {
	i := 0
	for {
		for i < len(s) && (s[i] == ' ' || s[i] == ',' && len(pairs) > 0 && i+1 < len(s) && s[i+1] == '}') {
			i++
		}
		if i < len(s) && s[i] == '}' {
			return pairs, i, nil
		}
		start := i
		for i < len(s) && nameByte(s[i], i-start) {
			i++
		}
		if i == start || i+1 >= len(s) || s[i] != '=' || s[i+1] != '"' || len(pairs) == maxLabels {
			return nil, 0, errSyntax
		}
		name := s[start:i]
		value, n, err := scanValue(s[i+2:])
		if err != nil {
			return nil, 0, err
		}
		pairs = append(pairs, pair{name, value})
		i += 2 + n
		if i >= len(s) || s[i] != ',' && s[i] != '}' {
			return nil, 0, errSyntax // a quote inside the value: where it ends is anybody's guess
		}
		if s[i] == ',' && i+1 < len(s) && s[i+1] != '}' {
			i++
		}
	}
}

// scanValue reads up to the closing quote and returns the position after it.
func scanValue(s string) (string, int, error) {
	i := strings.IndexAny(s, `"\`)
	if i >= 0 && s[i] == '"' {
		return s[:i], i + 1, nil
	}
	var b strings.Builder
	for i = 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1, nil
		case s[i] == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, errSyntax
}

// set takes one label. Those that identify a device or its owner must be short and
// printable, else the line is not believed; the others are kept by an allowlist.
func (l *labels) set(p pair, allow map[string]bool) error {
	if strings.HasPrefix(p.value, "<<<") && strings.HasSuffix(p.value, ">>>") {
		return errSyntax // DCGM's blank string
	}
	if at := l.field(p.name); at != nil {
		if !printable(p.value) {
			return errHostile
		}
		if *at == "" {
			*at = p.value
		}
		return nil
	}
	switch p.name {
	case "DCGM_FI_DRIVER_VERSION":
		l.oldDriver = p.value != ""
	case "DCGM_FI_SYSTEM_DRIVER_VERSION":
		l.newDriver = p.value != ""
	case "cluster", "prometheus", "prometheus_replica", "replica", "__replica__":
		l.origin += p.name + "\x00" + p.value + "\x00"
		fallthrough // it may be one to keep
	default:
		name := strings.TrimPrefix(p.name, "exported_")
		if p.value == "" || !allow[name] || !printable(p.value) || len(l.kept) == maxKept {
			return nil
		}
		if l.kept == nil {
			l.kept = map[string]string{}
		}
		if _, ok := l.kept[name]; !ok || name != p.name {
			l.kept[name] = p.value
		}
	}
	return nil
}

// field returns where a label with a meaning of its own is stored, under all its names.
func (l *labels) field(name string) *string {
	switch name {
	case "UUID", "uuid", "gpu_uuid":
		return &l.uuid
	case "GPU_I_ID":
		return &l.instance
	case "GPU_I_PROFILE":
		return &l.profile
	case "modelName", "model_name":
		return &l.model
	case "Hostname", "hostname":
		return &l.host
	case "pod", "pod_name":
		return &l.pod
	case "namespace", "pod_namespace":
		return &l.namespace
	case "container", "container_name":
		return &l.container
	case "pod_uid":
		return &l.podUID
	case "exported_pod":
		return &l.exPod
	case "exported_namespace":
		return &l.exNamespace
	case "exported_container":
		return &l.exContainer
	case "exported_pod_uid":
		return &l.exPodID
	case "hpc_job":
		return &l.hpcJob
	case "vgpu":
		return &l.vgpu
	case "job":
		return &l.job
	case "instance":
		return &l.endpoint
	}
	return nil
}

func printable(s string) bool {
	if len(s) > maxLabelLen || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}
