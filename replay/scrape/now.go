package scrape

import "maps"

// Now is what the pages said last, by the name of a metric: of counters the sum of all series, of gauges the largest. Histograms and
// summaries are left out.
type Now struct {
	Counters, Gauges map[string]float64
}

// Since returns what counters have gained since another instant. One that was not there then had 0; one that is less now, because its
// server began anew, has gained nothing.
func (n Now) Since(before Now) Now {
	counters := maps.Clone(n.Counters)
	for name := range counters {
		counters[name] = max(counters[name]-before.Counters[name], 0)
	}
	return Now{counters, n.Gauges}
}

// Now returns what the pages said last.
func (c *Collector) Now() Now {
	n := Now{map[string]float64{}, map[string]float64{}}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, p := range c.pages {
		for _, s := range p.series {
			if len(s.values) != 1 {
				continue
			}
			switch v := s.values[0]; s.kind {
			case Counter:
				n.Counters[s.name] += v
			case Gauge:
				if most, ok := n.Gauges[s.name]; !ok || v > most {
					n.Gauges[s.name] = v
				}
			}
		}
	}
	return n
}
