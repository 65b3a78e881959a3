# The user, as the libraries that name folders after it ask.
# part: quick
# requires:
import getpass
import os
import pwd


def run():
    for name in "LOGNAME", "USER", "LNAME", "USERNAME":
        os.environ.pop(name, None)
    user = getpass.getuser()
    entry = pwd.getpwuid(os.getuid())
    # Not the name itself, which may be another one in a sandbox.
    return {"numbers": [len(user) > 0, entry.pw_name == user, entry.pw_uid == os.getuid(), os.path.isdir(os.path.expanduser("~"))]}
