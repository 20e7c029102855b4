package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linear is a colour in linear sRGB.
type linear [3]float64

func parseColour(t *testing.T, text string) (c linear) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(text[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		if v := float64(n) / 255; v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c linear) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast is that of WCAG 2.
func contrast(a, b linear) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// eyes are how colours look to eyes without one of the three cones (Machado, Oliveira, Fernandes 2009).
var eyes = map[string][3]linear{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab returns the colour in CIE L*a*b*, as an eye sees it.
func (c linear) lab(eye [3]linear) [3]float64 {
	var s linear
	for i, row := range eye {
		s[i] = min(1, max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2]))
	}
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x, y, z := f((0.4124*s[0]+0.3576*s[1]+0.1805*s[2])/0.95047), f(s.luminance()), f((0.0193*s[0]+0.1192*s[1]+0.9505*s[2])/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// The colours of series stand out from the ground, and from each other for every kind of eye, in light and in dark.
func TestColoursStayApart(t *testing.T) {
	css, err := sources.ReadFile("page.css")
	require.NoError(t, err)
	find := func(name string) (list []string) {
		for _, m := range regexp.MustCompile(name+`: (#[0-9a-f]{6})`).FindAllStringSubmatch(string(css), -1) {
			list = append(list, m[1])
		}
		return list
	}
	grounds := find("--ground")
	require.Len(t, grounds, 2)
	for theme, ground := range grounds {
		var series []string
		for n := 1; n <= 7; n++ {
			series = append(series, find(fmt.Sprintf("--series-%d", n))[theme])
		}
		for i, a := range series {
			assert.GreaterOrEqual(t, contrast(parseColour(t, a), parseColour(t, ground)), 3.0, "%s on %s", a, ground)
			for _, b := range series[:i] {
				for name, eye := range eyes {
					x, y := parseColour(t, a).lab(eye), parseColour(t, b).lab(eye)
					assert.GreaterOrEqual(t, math.Sqrt(math.Pow(x[0]-y[0], 2)+math.Pow(x[1]-y[1], 2)+math.Pow(x[2]-y[2], 2)), 15.0, "%s and %s, %s", a, b, name)
				}
			}
		}
		for _, name := range []string{"--text", "--muted", "--accent", "--good", "--bad"} {
			assert.GreaterOrEqual(t, contrast(parseColour(t, find(name)[theme]), parseColour(t, ground)), 4.5, "%s on %s", name, ground)
		}
	}
}
