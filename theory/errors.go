package theory

import "github.com/randfeat/randfeat/internal/forms"

var (
	// ErrDomain is wrapped by errors that name an argument outside its domain.
	ErrDomain = forms.ErrDomain

	// ErrNoClosedForm is wrapped by every *NoClosedFormError.
	ErrNoClosedForm = forms.ErrNoClosedForm
)

// NoClosedFormError says which quantity has no closed form here.
type NoClosedFormError = forms.NoClosedFormError
