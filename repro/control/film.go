package control

import (
	"bytes"
	"fmt"
)

// Film draws a walk as an animated SVG that repeats: the camera's image with the mask, and the course with the feet.
func Film(c *Course, p *Masked) []byte {
	type frame struct {
		w     Walker
		image []bool // true where the camera sees a pit
		mask  []bool
	}
	var frames []frame
	Walk(c, p, make([]float32, Pixels), func(w Walker, image []float32) {
		f := frame{w: w, image: make([]bool, Pixels), mask: append([]bool(nil), p.Mask...)}
		for i, v := range image {
			f.image[i] = v > 0
		}
		frames = append(frames, f)
	})
	const pixel, width, height, metres, top = 8, 480, 320, 4., 40
	seconds := stance * float64(len(frames)+2)
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" `+
			`font-size="13"><rect width="100%%" height="100%%" fill="#fff"/>`, width, height, width, height)
	scale := width / metres
	for n, f := range frames {
		// A frame is shown during its step; the last one stays for two more.
		from, to := stance*float64(n)/seconds, stance*float64(n+1)/seconds
		if n == len(frames)-1 {
			to = 1
		}
		fmt.Fprintf(&b, `<g visibility="hidden"><animate attributeName="visibility" calcMode="discrete" dur="%.2fs" `+
			`repeatCount="indefinite" values="hidden;visible;hidden" keyTimes="0;%.4f;%.4f"/>`, seconds, from,
			min(to, 1))
		fmt.Fprintf(&b, `<text x="8" y="20">step %d, %.1f m, %.2f m/s</text>`, n+1, f.w.X, f.w.V)
		for r := range Rows { // runs of equal pixels become one rectangle
			for at := 0; at < Cols; {
				end := at
				i := r*Cols + at
				for end < Cols && f.image[r*Cols+end] == f.image[i] && f.mask[r*Cols+end] == f.mask[i] {
					end++
				}
				colour := "#cfcfcf"
				switch {
				case !f.mask[i] && f.image[i]:
					colour = "#8c2f2f"
				case !f.mask[i]:
					colour = "#d98880"
				case f.image[i]:
					colour = "#303030"
				}
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, 112+at*pixel, top+r*pixel,
					(end-at)*pixel,
					pixel, colour)
				at = end
			}
		}
		origin := f.w.X - metres/3
		for _, s := range c.stones {
			if x0, x1 := max(0, (s[0]-origin)*scale), min(width, (s[1]-origin)*scale); x1 > x0 {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="14" fill="#7f8c8d"/>`, x0, height-34, x1-x0)
			}
		}
		x, foot := (f.w.X-origin)*scale, (f.w.Foot-origin)*scale
		colour := "#0072b2"
		if f.w.Fell {
			colour = "#d55e00"
		}
		fmt.Fprintf(&b,
			`<path d="M%.1f %d L%.1f %d" stroke="%s" stroke-width="3"/><circle cx="%.1f" cy="%d" r="7" fill="%s"/></g>`, x,
			height-72, foot, height-34, colour, x, height-72, colour)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
