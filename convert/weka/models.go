package weka

import "slices"

// ModelMap returns the name to ask for instead of each recorded model name. The model of the first request in the trace's
// own list goes to the first configured name; the others follow in the order of the document, around. Every request counts,
// of a subagent that is dropped too. Without configured names the recorded ones stay.
func (t *Trace) ModelMap(configured []string) map[string]string {
	order := slices.Clone(t.Models)
	for _, e := range t.Entries {
		if e.Marker == nil {
			main := t.Models[e.Model]
			order = slices.Insert(slices.DeleteFunc(order, func(m string) bool { return m == main }), 0, main)
			break
		}
	}
	names := map[string]string{}
	for k, name := range order {
		names[name] = name
		if n := len(configured); n > 0 {
			names[name] = configured[k%n]
		}
	}
	return names
}
