package server

import "github.com/agentx/agentx/replay/scrape"

// samplesOf returns the samples of a series. A counter has one where its value changed, which is enough: its value holds until the
// next. A gauge has one for every answer that shows it, so that an average weighs a value by how long it held, and so that a gauge
// that never changes has statistics at all.
func samplesOf(d *scrape.Data, s *scrape.Series) samples {
	answers := d.Endpoints[s.Endpoint].Answers
	list := samples{}
	for k := range s.Len() {
		n, values := s.Change(k)
		if k == 0 {
			list.born = n > 0
		}
		if values == nil {
			continue
		}
		list.width = len(values)
		until := n + 1
		if s.Type == scrape.Gauge {
			if until = len(answers); k+1 < s.Len() {
				until, _ = s.Change(k + 1)
			}
		}
		for ; n < until; n++ {
			list.at = append(list.at, answers[n].At)
			list.values = append(list.values, values...)
		}
	}
	return list
}
