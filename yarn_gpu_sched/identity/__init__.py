"""Who is who: roles and names in certificates, the files they are read from, and which addresses need them.

It knows no connection and no other room. A certificate names one identity by a URI ``ygs://ROLE/NAME`` (`parse_uri`); `TlsFiles`
are the three files of a process; `is_local` tells which addresses may go without. `make_authority` and `issue` make
certificates. Times of certificates are those of the wall clock, because others wrote them.
"""

from yarn_gpu_sched.identity.certificates import BadCertificate, Material, Presented, TlsFiles, presented, utc_now
from yarn_gpu_sched.identity.issuing import Wanted, issue, make_authority
from yarn_gpu_sched.identity.places import is_local, is_loopback, is_unix, plain_refusal, unix_path
from yarn_gpu_sched.identity.roles import BadIdentity, Identity, Role, checked_name, parse_role, parse_uri

__all__ = [
    "BadCertificate",
    "BadIdentity",
    "Identity",
    "Material",
    "Presented",
    "Role",
    "TlsFiles",
    "Wanted",
    "checked_name",
    "is_local",
    "is_loopback",
    "is_unix",
    "issue",
    "make_authority",
    "parse_role",
    "parse_uri",
    "plain_refusal",
    "presented",
    "unix_path",
    "utc_now",
]
