package fit

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// refine fits the constants of a trial. It begins with others, and with those that the instants of the run tell. From each it goes toward the
// least squares of the passes that were played with it, as long as the error falls.
func (p *problem) refine(t *trial, from engine.Formula) {
	if one := p.descend(t, from); one != nil {
		p.descend(t, p.regress(t.structure, one))
	}
}

// polish changes one constant after the other by steps, as long as the error falls.
func (p *problem) polish(t *trial) {
	for _, step := range []float64{0.05, 0.02, 0.01, 0.005, 0.002} {
		for _, of := range directions {
			for _, factor := range []float64{1 + step, 1 / (1 + step)} {
				for better := true; better; {
					f := t.formula
					*of(&f) *= factor
					_, better = p.look(t, f)
				}
			}
		}
	}
}

// least is by which factor a step must make the error smaller.
const least = 0.995

// look plays a structure with constants, and notes them where they are better; nil: the engine cannot play the run.
func (p *problem) look(best *trial, f engine.Formula) (one *played, better bool) {
	one, err := p.play(best.structure, f, false)
	if err != nil {
		return nil, false
	}
	errors, score := p.errors(one)
	if better = score < best.score*least; better {
		best.formula, best.errors, best.score = f, errors, score
	}
	return one, better
}

// descend goes from constants to better ones, and returns what was played with the first.
func (p *problem) descend(best *trial, f engine.Formula) (first *played) {
	own := &trial{structure: best.structure, score: math.Inf(1)}
	first, _ = p.look(own, f)
	for one, better := first, first != nil; better; {
		squares := p.constants(one)
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if one, better = p.look(own, toward(own.formula, squares, share)); better {
				break
			}
		}
	}
	if own.score < best.score {
		best.formula, best.errors, best.score = own.formula, own.errors, own.score
	}
	return first
}

// directions are the constants.
var directions = [...]func(f *engine.Formula) *float64{
	func(f *engine.Formula) *float64 { return &f.Pass },
	func(f *engine.Formula) *float64 { return &f.Weights },
	func(f *engine.Formula) *float64 { return &f.Token },
	func(f *engine.Formula) *float64 { return &f.Attention },
	func(f *engine.Formula) *float64 { return &f.KV },
	func(f *engine.Formula) *float64 { return &f.Sequence },
	func(f *engine.Formula) *float64 { return &f.Request },
}

// toward returns constants that lie between others.
func toward(from, to engine.Formula, share float64) engine.Formula {
	for _, of := range directions {
		*of(&from) += share * (*of(&to) - *of(&from))
	}
	return from
}

// constants fits those of passes to the measured durations of requests, by least squares of relative errors. What the passes that were
// played explain badly counts less.
func (p *problem) constants(one *played) engine.Formula {
	var rows []row
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) || q.Tokens == 0 {
			continue
		}
		for _, s := range one.spans(r, q) {
			rows = appendRow(rows, one.features(q, s), s.measured, s.weight*trust(float64(s.to-s.from)/float64(s.measured), 0.2))
		}
	}
	return p.solve(rows)
}

// solve returns the constants of rows.
func (p *problem) solve(rows []row) engine.Formula {
	f := leastSquares(rows)
	if f.Request > p.fastest { // it is part of every time to a first token
		for k := range rows {
			rows[k].ms -= p.fastest * rows[k].features[requests]
			rows[k].features[requests] = 0
		}
		f = leastSquares(rows)
		f.Request = p.fastest
	}
	return f
}

// errors returns the relative errors of the requests to which constants are fitted, and their mean. That of a request is the mean of those of
// its time to the first token, and from there to the last.
func (p *problem) errors(one *played) (list []float64, mean float64) {
	for k := range p.list {
		r, q := &p.list[k], one.requests[k]
		if !fitted(r) {
			continue
		}
		sum, n := 0.0, 0.0
		for _, s := range one.spans(r, q) {
			sum += s.weight * math.Min(math.Abs(math.Log(float64(max(s.to-s.from, 1000))/float64(max(s.measured, 1000)))), 2)
			n += s.weight
		}
		list = append(list, sum/n)
		mean += sum / n
	}
	return list, mean / float64(len(list))
}
