package forms

import (
	"errors"
	"fmt"
)

var (
	// ErrDomain is wrapped by errors that name an argument outside its domain.
	ErrDomain = errors.New("theory: argument outside its domain")

	// ErrNoClosedForm is wrapped by every *NoClosedFormError.
	ErrNoClosedForm = errors.New("theory: no closed form")
)

// NoClosedFormError says which quantity has no closed form here.
type NoClosedFormError struct {
	What string
}

// Error names the quantity.
func (e *NoClosedFormError) Error() string {
	return fmt.Sprintf("theory: no closed form for %s", e.What)
}

// Unwrap returns ErrNoClosedForm.
func (e *NoClosedFormError) Unwrap() error { return ErrNoClosedForm }

// DomainError reports argument name = value as invalid.
func DomainError(name string, value any, need string) error {
	return fmt.Errorf("%w: %s = %v, need %s", ErrDomain, name, value, need)
}
