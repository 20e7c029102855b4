package corpus

import "sync"

// proseBytes is the length after which no further article begins.
const proseBytes = 2_150_000

// Prose returns the corpus named "prose": articles of technical English, with passages in many languages and scripts. See Text.Generate.
func Prose() []byte { return prose() }

var prose = sync.OnceValue(generateProse)

func generateProse() []byte {
	g := newGenerator(loadGrammar(), 2, proseBytes)
	for len(g.out) < proseBytes {
		g.article()
	}
	return g.out
}

// article writes a title and some sections.
func (g *generator) article() {
	g.begin()
	g.paragraph("# " + g.text("p.heading"))
	g.paragraph(g.text("p.block"))
	for range 3 + g.rng.below(5) {
		g.paragraph("## " + g.text("p.heading"))
		for range 2 + g.rng.below(4) {
			g.paragraph(g.text("p.block"))
		}
		if g.rng.below(2) == 0 {
			g.paragraph(g.text("p.foreign"))
		}
	}
}
