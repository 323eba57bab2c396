package demo

import (
	"slices"
	"time"
)

// read returns what a device shows: who holds it, and what it does for them.
func (t *target) read(d *device, at time.Time) reading {
	n := noise(hash(d.uuid), uint64(at.Unix()))
	for _, w := range t.jobs {
		if !at.Before(w.from) && at.Before(w.to) && slices.Contains(w.gpus, d.index) {
			r := training(n)
			r.owner = `,hpc_job="` + w.id + `"`
			if t.node == stalledNode && d.index == stalledGPU && !at.Before(stalledStart) && at.Before(stalledEnd) {
				r.util, r.engine, r.sm, r.power = 100, 998_000+int(n%2000), 4_000+int(n%900), 121_000+int(n%4000)
			}
			r.blank = t.node == blankNode && d.index == blankGPU && at.Equal(blankAt)
			return r
		}
	}
	for _, s := range t.pods {
		if slices.Contains(s.gpus, d.index) {
			r := traffic(n, at)
			if s.idle {
				r = reading{power: 27_000 + int(n%1500), memory: 9_214}
			}
			r.owner = `,container="` + s.container + `",namespace="` + s.namespace + `",pod="` + s.pod + `"`
			return r
		}
	}
	return reading{power: idlePower(t.shape) + int(n%3500), memory: 4}
}

// training is a steady step loop: nearly full, with the dips of a data loader.
func training(n uint64) reading {
	r := reading{
		util: 97 + int(n%4), engine: 935_000 + int(n>>8%52_000), sm: 742_000 + int(n>>16%120_000),
		power: 612_000 + int(n>>32%74_000), memory: 73_418 + int(n>>40%900),
	}
	if n>>48%97 == 0 {
		r.util, r.engine, r.sm, r.power = 41, 402_000, 288_000, 344_000
	}
	return r
}

// traffic follows the day: quiet at night in Europe, busiest in the afternoon, less on weekends.
func traffic(n uint64, at time.Time) reading {
	byHour := [24]int{9, 8, 8, 9, 14, 24, 38, 52, 61, 66, 68, 64, 67, 71, 72, 68, 60, 51, 42, 34, 27, 20, 14, 11}
	load := byHour[at.Hour()]
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		load = load * 55 / 100
	}
	load = max(3, load-4+int(n%9))
	return reading{
		util: load, engine: load*9_200 + int(n>>8%5_000), sm: load*7_100 + int(n>>16%4_000),
		power: 33_000 + load*390 + int(n>>24%900), memory: 20_310 + int(n>>32%40),
	}
}

func idlePower(s shape) int {
	if s.gpus == 8 {
		return 69_000
	}
	return 14_000
}
