// Package figure draws curves as SVG: axes with linear or logarithmic ticks, lines through points with intervals, marks
// and a legend. A figure follows the light or dark scheme of its reader; its series differ in colours that the colour
// blind tell apart (Okabe and Ito, "Color universal design", 2008) and in the shapes of their points.
package figure

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Figure is the content of a figure; WriteSVG draws it.
type Figure struct {
	Title, Subtitle string
	X, Y            Axis
	Series          []Series // at most MaxSeries
	Marks           []Mark
	Width, Height   int // in pixels; 0: 720 and 480. Text keeps its size, so a narrow figure suits a narrow screen
}

// Axis has a label and a scale.
type Axis struct {
	Label string
	Log   bool
	Ticks []float64 // values with a label; nil: round numbers
	Names []string  // labels of the ticks of the x axis; nil: their numbers. Long ones are written aslant
	Over  []float64 // values that the axis covers besides those of the series
}

// Series is a line through points. Low and High are empty, or the ends of an interval around each point.
type Series struct {
	Name      string
	X, Y      []float64
	Low, High []float64
	Loose     bool      // points without a line through them
	Share     []float64 // empty, or the share of rows at each point: bars on the x axis
}

// Mark is a vertical line with the interval around it.
type Mark struct {
	Name         string
	X, Low, High float64
}

// MaxSeries is the number of colours and shapes.
const MaxSeries = 6

// ErrFigure marks figures that cannot be drawn.
var ErrFigure = errors.New("cannot draw the figure")

// Sizes in pixels. The browser chooses the font, so widths of texts are estimated generously.
const (
	usualWidth, height  = 720, 480
	left, right, bottom = 72, 24, 56
	slant, slantLetters = 44, 12 // height below the axis for names that are written aslant, cut to so many letters
	fontSize, titleSize = 13.0, 15.0
	letter              = 0.56 * fontSize // a generous average for sans-serif digits and letters
)

// WriteSVG writes the figure. The output is deterministic. Errors are [ErrFigure], for values that an axis
// cannot show, and those of w.
func (f *Figure) WriteSVG(w io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	d := &drawing{f: f, width: float64(cmp.Or(f.Width, usualWidth))}
	width, height := int(d.width), cmp.Or(f.Height, height)
	d.height = float64(height)
	d.legend() // first: its height decides where the axes begin
	d.x = f.X.scale(left, d.width-right, append(f.xs(), f.X.Over...))
	floor := float64(height - bottom)
	if d.aslant = f.X.long(d.width - left - right); d.aslant {
		floor -= slant
	}
	d.y = f.Y.scale(floor, d.top, append(f.ys(), f.Y.Over...))
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-label="%s">`+"\n", width, height, width, height, text(f.Title+". "+f.description()))
	fmt.Fprintf(&b, "<title>%s</title>\n", text(f.Title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", width, height)
	d.shares()
	d.axes()
	d.marks()
	for i := range f.Series {
		d.series(i)
	}
	b.Write(d.b.Bytes())
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// style gives the series their colours, lighter ones on a dark background.
//
//go:embed style.html
var style string

// Page is the style sheet that all pages of randfeat share, in the light and the dark scheme.
//
//go:embed page.css
var Page string

// shapes of points, around the origin.
var shapes = [MaxSeries]string{
	`M-3.6,0a3.6,3.6 0 1,0 7.2,0a3.6,3.6 0 1,0 -7.2,0z`,          // a circle
	`M-3.3,-3.3h6.6v6.6h-6.6z`,                                   // a square
	`M0,-4.4L4.2,3.3H-4.2z`,                                      // a triangle
	`M0,-4.6L4.6,0L0,4.6L-4.6,0z`,                                // a diamond
	`M0,4.4L4.2,-3.3H-4.2z`,                                      // a triangle on its head
	`M-4,-1.4h2.6v-2.6h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6z`, // a cross
}

func (f *Figure) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrFigure}, args...)...)
	}
	if n := len(f.Series); n == 0 || n > MaxSeries {
		return bad("%d series, want 1 to %d", n, MaxSeries)
	}
	for _, s := range f.Series {
		n := len(s.X)
		if n == 0 || len(s.Y) != n {
			return bad("series %q has %d x and %d y, want as many and at least one", s.Name, n, len(s.Y))
		}
		for _, l := range []int{len(s.Low), len(s.High)} {
			if l != 0 && l != n || len(s.Low) != len(s.High) {
				return bad("series %q has %d points and intervals from %d to %d numbers", s.Name, n, len(s.Low),
					len(s.High))
			}
		}
	}
	if n := len(f.X.Names); n != 0 && n != len(f.X.Ticks) {
		return bad("%d names of %d ticks", n, len(f.X.Ticks))
	}
	for _, a := range []struct {
		name   string
		axis   *Axis
		values []float64
	}{{"x", &f.X, slices.Concat(f.xs(), f.X.Ticks, f.X.Over)},
		{"y", &f.Y, slices.Concat(f.ys(), f.Y.Ticks, f.Y.Over)}} {
		for _, v := range a.values {
			if math.IsNaN(v) || math.IsInf(v, 0) || a.axis.Log && v <= 0 {
				return bad("%v on the %s axis", v, a.name)
			}
		}
	}
	return nil
}

func (f *Figure) xs() (v []float64) {
	for _, s := range f.Series {
		v = append(v, s.X...)
	}
	for _, m := range f.Marks {
		v = append(v, m.X, m.Low, m.High)
	}
	return v
}

func (f *Figure) ys() (v []float64) {
	for _, s := range f.Series {
		v = append(append(append(v, s.Y...), s.Low...), s.High...)
	}
	return v
}

// description describes the figure in words, for screen readers.
func (f *Figure) description() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by %s:", f.Y.Label, f.X.Label)
	for i, s := range f.Series {
		sep := ";"
		if i == 0 {
			sep = ""
		}
		n := len(s.X) - 1
		fmt.Fprintf(&b, "%s %s from %s at %s to %s at %s", sep, s.Name,
			label(s.Y[0]), label(s.X[0]), label(s.Y[n]), label(s.X[n]))
	}
	for _, m := range f.Marks {
		fmt.Fprintf(&b, "; %s", m.Name)
	}
	return b.String() + "."
}

// scale maps an axis to pixels.
type scale struct {
	log        bool
	from, to   float64 // ends of the axis, as logarithms if log
	begin, end float64 // ends in pixels
	major      []float64
	minor      []float64
}

// scale covers the values with 3 % of padding. Ticks outside of it are left out.
func (a *Axis) scale(begin, end float64, values []float64) scale {
	s := scale{log: a.Log, begin: begin, end: end}
	lo, hi := slices.Min(values), slices.Max(values)
	if a.Log {
		if lo == hi {
			lo, hi = lo/2, hi*2
		}
		s.from, s.to = math.Log10(lo), math.Log10(hi)
	} else {
		if lo == hi {
			lo, hi = lo-1, hi+1
		}
		s.from, s.to = lo, hi
	}
	pad := 0.03 * (s.to - s.from)
	s.from, s.to = s.from-pad, s.to+pad
	switch {
	case a.Ticks != nil:
		s.major = a.Ticks
	case a.Log:
		s.major, s.minor = logTicks(s.from, s.to)
	default:
		s.major = linearTicks(s.from, s.to)
	}
	outside := func(v float64) bool {
		p := s.at(v)
		return p < math.Min(begin, end) || p > math.Max(begin, end)
	}
	s.major = slices.DeleteFunc(slices.Clone(s.major), outside)
	s.minor = slices.DeleteFunc(s.minor, outside)
	return s
}

// at returns the pixel of a value.
func (s *scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return s.begin + (v-s.from)/(s.to-s.from)*(s.end-s.begin)
}

// logTicks are powers of ten, with 2 and 5 if there are few, and all other digits as minor ticks.
func logTicks(from, to float64) (major, minor []float64) {
	step := max(1, int(math.Ceil((to-from)/8))) // decades between labels
	few := to-from < 2.5
	for e := int(math.Floor(from)); e <= int(math.Ceil(to)); e++ {
		for digit := 1; digit < 10; digit++ {
			v, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digit, e), 64) // exact, unlike digit times Pow10
			if err != nil {
				continue
			}
			if digit == 1 && e%step == 0 || few && (digit == 2 || digit == 5) {
				major = append(major, v)
			} else if step == 1 {
				minor = append(minor, v)
			}
		}
	}
	return major, minor
}

// linearTicks are five to ten multiples of 1, 2 or 5 times a power of ten.
func linearTicks(from, to float64) (major []float64) {
	e := int(math.Floor(math.Log10((to - from) / 5)))
	for _, digit := range []int{1, 2, 5, 10} {
		step, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digit, e), 64)
		if err != nil || (to-from)/step > 10 {
			continue
		}
		for k := math.Ceil(from / step); k*step <= to; k++ {
			v, err := strconv.ParseFloat(strconv.FormatFloat(k*step, 'g', 12, 64), 64) // 0.3, not 3·0.1
			if err == nil {
				major = append(major, v)
			}
		}
		break
	}
	return major
}

// drawing collects the parts of a figure.
type drawing struct {
	f             *Figure
	b             bytes.Buffer
	x, y          scale
	top           float64 // upper end of the axes
	width, height float64

	aslant bool // names of the x axis
}

// long says whether the names of an axis of some pixels do not fit side by side.
func (a *Axis) long(width float64) bool {
	letters := 0
	for _, n := range a.Names {
		letters = max(letters, utf8.RuneCountInString(n))
	}
	return letter*float64((letters+1)*len(a.Names)) > width
}

// shares draws bars on the x axis, the largest a sixth of the height.
func (d *drawing) shares() {
	for _, s := range d.f.Series {
		if len(s.Share) == 0 {
			continue
		}
		// A point stands for the values nearer to it than to others, so its bar is as wide, and its area is the share.
		order := make([]int, len(s.X))
		for j := range order {
			order[j] = j
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.X[a], s.X[b]) })
		at := func(i int) float64 { return d.x.at(s.X[order[i]]) }
		n, most := len(order), 0.0
		from, to, high := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range order {
			gap := d.x.end - d.x.begin
			if n > 1 {
				gap = at(min(i+1, n-1)) - at(max(i-1, 0))
			}
			from[i], to[i] = at(i)-gap/2, at(i)+gap/2
			if i > 0 {
				from[i] = (at(i-1) + at(i)) / 2
			}
			if i+1 < n {
				to[i] = (at(i) + at(i+1)) / 2
			}
			from[i], to[i] = max(from[i], d.x.begin), min(to[i], d.x.end)
			high[i] = s.Share[order[i]] / max(to[i]-from[i], 1)
			most = max(most, high[i])
		}
		for i, j := range order {
			h := (d.y.begin - d.y.end) / 6 * high[i] / max(most, 1e-300)
			fmt.Fprintf(&d.b, `<rect class="share" x="%s" y="%s" width="%s" height="%s"><title>%s %%</title></rect>`+"\n",
				px(from[i]), px(d.y.begin-h), px(max(to[i]-from[i]-0.5, 0.5)), px(h), label(100*s.Share[j]))
		}
	}
}

// legend writes title and legend above the axes, where no curve can cross them.
func (d *drawing) legend() {
	y := 26.0
	for i, line := range wrap(d.f.Title, (d.width-left-right)/(letter*titleSize/fontSize)) {
		if i > 0 {
			y += 20
		}
		fmt.Fprintf(&d.b, `<text class="title" x="%d" y="%s">%s</text>`+"\n", left, px(y), text(line))
	}
	for _, line := range wrap(d.f.Subtitle, (d.width-left-right)/letter) {
		y += 20
		fmt.Fprintf(&d.b, `<text class="minor" x="%d" y="%s">%s</text>`+"\n", left, px(y), text(line))
	}
	x := float64(left)
	if slices.ContainsFunc(d.f.Series, func(s Series) bool { return s.Name != "" }) || len(d.f.Marks) > 0 {
		y += 24
	}
	entry := func(name string, draw func(x, y float64)) {
		w := 34 + letter*float64(utf8.RuneCountInString(name)) + 18
		if x > left && x+w > d.width-right {
			x, y = left, y+20
		}
		draw(x, y-4.5)
		fmt.Fprintf(&d.b, `<text x="%s" y="%s">%s</text>`+"\n", px(x+34), px(y), text(name))
		x += w
	}
	for i, s := range d.f.Series {
		if s.Name == "" {
			continue
		}
		entry(s.Name, func(x, y float64) {
			fmt.Fprintf(&d.b, `<g class="s%d">`, i)
			if !s.Loose {
				fmt.Fprintf(&d.b, `<path class="line" d="M%s,%sh26"/>`, px(x), px(y))
			}
			d.point(i, x+13, y, "")
			d.b.WriteString("</g>\n")
		})
	}
	for _, m := range d.f.Marks {
		entry(m.Name, func(x, y float64) {
			fmt.Fprintf(&d.b, `<path class="at" d="M%s,%sh26"/>`+"\n", px(x), px(y))
		})
	}
	d.top = y + 16
}

// wrap breaks a text into lines of at most some letters, between words.
func wrap(s string, letters float64) (lines []string) {
	for _, word := range strings.Fields(s) {
		n := len(lines) - 1
		if n < 0 || float64(utf8.RuneCountInString(lines[n])+1+utf8.RuneCountInString(word)) > letters {
			lines = append(lines, word)
		} else {
			lines[n] += " " + word
		}
	}
	return lines
}

func (d *drawing) axes() {
	for _, v := range d.x.minor {
		fmt.Fprintf(&d.b, `<path class="fine" d="M%s,%sV%s"/>`+"\n", px(d.x.at(v)), px(d.y.begin), px(d.y.end))
	}
	for _, v := range d.y.minor {
		fmt.Fprintf(&d.b, `<path class="fine" d="M%s,%sH%s"/>`+"\n", px(d.x.begin), px(d.y.at(v)), px(d.x.end))
	}
	free := math.Inf(-1) // where the next label may begin
	for _, v := range d.x.major {
		x, half := d.x.at(v), letter*float64(len(label(v)))/2
		fmt.Fprintf(&d.b, `<path class="grid" d="M%s,%sV%s"/><path class="axis" d="M%s,%sv5"/>`+"\n",
			px(x), px(d.y.begin), px(d.y.end), px(x), px(d.y.begin))
		name := label(v)
		if d.f.X.Names != nil {
			name = d.f.X.Names[slices.Index(d.f.X.Ticks, v)]
			half = letter * float64(utf8.RuneCountInString(name)) / 2
		}
		switch {
		case d.aslant && x-fontSize > free:
			if r := []rune(name); len(r) > slantLetters {
				name = string(r[:slantLetters-1]) + "…"
			}
			fmt.Fprintf(&d.b, `<text class="y" transform="translate(%s,%s) rotate(-40)">%s</text>`+"\n", px(x+4), px(d.y.begin+16),
				text(name))
			free = x
		case !d.aslant && x-half > free:
			fmt.Fprintf(&d.b, `<text class="x" x="%s" y="%s">%s</text>`+"\n", px(x), px(d.y.begin+20), text(name))
			free = x + half + letter
		}
	}
	free = math.Inf(1)
	for _, v := range d.y.major {
		y := d.y.at(v)
		fmt.Fprintf(&d.b, `<path class="grid" d="M%s,%sH%s"/><path class="axis" d="M%s,%sh-5"/>`+"\n",
			px(d.x.begin), px(y), px(d.x.end), px(d.x.begin), px(y))
		if y+fontSize/2 < free {
			fmt.Fprintf(&d.b, `<text class="y" x="%s" y="%s">%s</text>`+"\n", px(d.x.begin-9), px(y+4.5), label(v))
			free = y - fontSize/2
		}
	}
	fmt.Fprintf(&d.b, `<path class="axis" d="M%s,%sV%sH%s"/>`+"\n", px(d.x.begin), px(d.y.end), px(d.y.begin),
		px(d.x.end))
	middleX, middleY := (d.x.begin+d.x.end)/2, (d.y.begin+d.y.end)/2
	fmt.Fprintf(&d.b, `<text class="x minor" x="%s" y="%d">%s</text>`+"\n", px(middleX), int(d.height)-14,
		text(d.f.X.Label))
	fmt.Fprintf(&d.b, `<text class="x minor" transform="translate(18,%s) rotate(-90)">%s</text>`+"\n",
		px(middleY), text(d.f.Y.Label))
}

func (d *drawing) marks() {
	for _, m := range d.f.Marks {
		low, high := d.x.at(m.Low), d.x.at(m.High)
		fmt.Fprintf(&d.b, `<rect class="range" x="%s" y="%s" width="%s" height="%s"/>`,
			px(low), px(d.y.end), px(high-low), px(d.y.begin-d.y.end))
		fmt.Fprintf(&d.b, `<path class="at" d="M%s,%sV%s"/>`+"\n", px(d.x.at(m.X)), px(d.y.begin), px(d.y.end))
	}
}

func (d *drawing) series(i int) {
	s := &d.f.Series[i]
	fmt.Fprintf(&d.b, `<g class="s%d">`, i)
	if !s.Loose {
		d.line(s)
	}
	for j := range s.Low {
		x, low, high := d.x.at(s.X[j]), d.y.at(s.Low[j]), d.y.at(s.High[j])
		fmt.Fprintf(&d.b, `<path class="bar" d="M%s,%sh6m-3,0V%sm-3,0h6"/>`+"\n", px(x-3), px(low), px(high))
	}
	for j := range s.X {
		meaning := fmt.Sprintf("%s: %s %s, %s %s", cmp.Or(s.Name, d.f.Title), d.f.X.Label, label(s.X[j]),
			label(s.Y[j]), d.f.Y.Label)
		d.point(i, d.x.at(s.X[j]), d.y.at(s.Y[j]), meaning)
		d.b.WriteByte('\n')
	}
	d.b.WriteString("</g>\n")
}

// line goes through the points of a series.
func (d *drawing) line(s *Series) {
	d.b.WriteString(`<path class="line" d="`)
	for j := range s.X {
		command := byte('L')
		if j == 0 {
			command = 'M'
		}
		d.b.WriteByte(command)
		d.b.WriteString(px(d.x.at(s.X[j])) + "," + px(d.y.at(s.Y[j])))
	}
	d.b.WriteString("\"/>\n")
}

func (d *drawing) point(i int, x, y float64, meaning string) {
	fmt.Fprintf(&d.b, `<path class="point" transform="translate(%s,%s)" d="%s"`, px(x), px(y), shapes[i])
	if meaning == "" {
		d.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&d.b, "><title>%s</title></path>", text(meaning))
}

// px formats a coordinate.
func px(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }

// label formats a number with four digits.
func label(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if v == 0 { // also −0
		return "0"
	}
	if a := math.Abs(v); a >= 1e-4 && a < 1e6 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	return fmt.Sprintf("%se%d", mantissa, n)
}

// text escapes a text for XML; characters that XML cannot hold become replacement characters.
func text(s string) string {
	return Escape(strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s))
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// Escape escapes text for HTML and XML, like html.EscapeString. Package html would add its table of all named
// characters to programs, 50 KB.
func Escape(s string) string { return escapes.Replace(s) }
