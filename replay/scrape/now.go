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

// Labels returns which values a label of a metric had that tells labels alone, whose name ends in _info: by page, without user, password and
// query. Values that are gone are left out.
func (c *Collector) Labels(metric, label string) map[string][]string {
	values := map[string][]string{}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, p := range c.pages {
		for _, s := range p.series {
			if v := s.labels[label]; s.name == metric && s.values != nil && v != "" {
				url := p.facts().URL
				values[url] = append(values[url], v)
			}
		}
	}
	return values
}
