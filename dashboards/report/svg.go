package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/idlewatt/idlewatt/schema/money"
)

// svg draws a plot by hand: no script, no font, no request, and colours that follow the page
// (classes k-KEY). Every part carries its figure as a title, and a table stands beside it.
func (p Plot) svg() string {
	if p.Upright {
		return p.columns()
	}
	return p.bars()
}

// extent is the largest sum of positive and of negative parts of any bar.
func (p Plot) extent() (low, high float64) {
	for i := range p.Labels {
		var up, down float64
		for _, s := range p.Series {
			if v := s.Values[i].InexactFloat64(); v > 0 {
				up += v
			} else {
				down += v
			}
		}
		low, high = min(low, down), max(high, up)
	}
	if low == high {
		high = 1
	}
	return low, high
}

// ticks returns round values that cover the extent, zero among them.
func ticks(low, high float64, about int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(about))))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if (high-low)/(step*f) <= float64(about) {
			step *= f
			break
		}
	}
	var out []float64
	for v := math.Floor(low/step+1e-9) * step; v < high+step*(1-1e-9); v += step {
		out = append(out, math.Round(v/step)*step)
	}
	return out
}

// short is a tick's text: 1.2k, 300, 0.05.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return trimmed(v/1e6) + "M"
	case a >= 1e3:
		return trimmed(v/1e3) + "k"
	}
	return trimmed(v)
}

func trimmed(v float64) string {
	s := fmt.Sprintf("%.4f", v)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// bars lays bars by name out from left to right.
func (p Plot) bars() string {
	const width, left, right, row, bar, head = 960.0, 190.0, 120.0, 30.0, 18.0, 26.0
	low, high := p.extent()
	marks := ticks(low, high, 6)
	low, high = marks[0], marks[len(marks)-1]
	x := func(v float64) float64 { return left + (v-low)/(high-low)*(width-left-right) }
	bottom := head + row*float64(len(p.Labels))
	var b strings.Builder
	p.open(&b, width, bottom+6)
	for _, m := range marks {
		class := "grid"
		if m == 0 {
			class = "axis"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x(m), head-6, x(m), bottom)
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x(m), head-11, short(m))
	}
	for i, label := range p.Labels {
		top := head + row*float64(i) + (row-bar)/2
		fmt.Fprintf(&b, `<text class="label" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-10, top+bar-5, html.EscapeString(clip(label, 26)))
		up, down := 0.0, 0.0
		for _, s := range p.Series {
			v := s.Values[i].InexactFloat64()
			from := &up
			if v < 0 {
				from = &down
			}
			p.part(&b, s, i, min(x(*from), x(*from+v)), top, math.Abs(x(*from+v)-x(*from)), bar)
			*from += v
		}
		fmt.Fprintf(&b, `<text class="value" x="%.1f" y="%.1f">%s</text>`, x(up)+8, top+bar-5, html.EscapeString(p.Sums[i]))
	}
	b.WriteString("</svg>")
	return b.String()
}

// columns stands one column per day, with every second label where they are dense.
func (p Plot) columns() string {
	const width, left, right, height, head, foot = 960.0, 56.0, 12.0, 220.0, 14.0, 26.0
	low, high := p.extent()
	marks := ticks(low, high, 7)
	low, high = marks[0], marks[len(marks)-1]
	y := func(v float64) float64 { return head + (high-v)/(high-low)*height }
	step := (width - left - right) / float64(max(len(p.Labels), 1))
	var b strings.Builder
	p.open(&b, width, head+height+foot)
	for _, m := range marks {
		class := "grid"
		if m == 0 {
			class = "axis"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, left, y(m), width-right, y(m))
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-8, y(m)+4, short(m))
	}
	for i, label := range p.Labels {
		at := left + step*float64(i)
		up, down := 0.0, 0.0
		for _, s := range p.Series {
			v := s.Values[i].InexactFloat64()
			from := &up
			if v < 0 {
				from = &down
			}
			p.part(&b, s, i, at+step*0.14, min(y(*from), y(*from+v)), step*0.72, math.Abs(y(*from+v)-y(*from)))
			*from += v
		}
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, at+step/2, head+height+18, html.EscapeString(dayLabel(label)))
	}
	b.WriteString("</svg>")
	return b.String()
}

func (p Plot) open(b *strings.Builder, width, height float64) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`, width, height,
		html.EscapeString(p.Title+", "+p.Currency))
}

// part draws one series of one bar, if there is anything to see.
func (p Plot) part(b *strings.Builder, s Series, i int, x, y, w, h float64) {
	if s.Values[i].IsZero() {
		return
	}
	fmt.Fprintf(b, `<rect class="k-%s" x="%.1f" y="%.1f" width="%.2f" height="%.2f"><title>%s</title></rect>`, s.Key, x, y, w, h,
		html.EscapeString(fmt.Sprintf("%s, %s: %s", p.Labels[i], s.Title, money.Text(s.Values[i], p.Currency))))
}

// legend lists the series that the plot shows.
func (p Plot) legend() []Series {
	var out []Series
	for _, s := range p.Series {
		for _, v := range s.Values {
			if !v.IsZero() {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// dayLabel is the day of the month of a YYYY-MM-DD.
func dayLabel(s string) string {
	if len(s) == len("2006-01-02") {
		return strings.TrimPrefix(s[8:], "0")
	}
	return s
}

func clip(s string, n int) string {
	r := []rune(plain(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
