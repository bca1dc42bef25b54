# Finds MuJoCo inside the Python package `mujoco`, or where MUJOCO_ROOT points, and defines the target
# MuJoCo::mujoco. The package is located, never imported; its library carries its full version in the
# soname and has no plain .so, so it is linked by full path. Installed beside canter-config.cmake.
#
# Input:  MUJOCO_ROOT (variable or environment), MuJoCo_HINTS (more folders to try), Python_EXECUTABLE
# Output: MuJoCo_ROOT_DIR, MuJoCo_INCLUDE_DIR, MuJoCo_LIBRARY, MuJoCo_VERSION (4.0.0), MuJoCo_FOUND

set(_mujoco_roots)
if(MUJOCO_ROOT)
  list(APPEND _mujoco_roots "${MUJOCO_ROOT}")
elseif(DEFINED ENV{MUJOCO_ROOT})
  list(APPEND _mujoco_roots "$ENV{MUJOCO_ROOT}")
else()
  set(_mujoco_roots ${MuJoCo_HINTS})
  set(_mujoco_python "${Python_EXECUTABLE}")
  if(NOT _mujoco_python)
    find_program(_mujoco_python3 NAMES python3 python)
    set(_mujoco_python "${_mujoco_python3}")
  endif()
  if(_mujoco_python)
    execute_process(
      COMMAND "${_mujoco_python}" -c
              "from importlib.util import find_spec as f; s = f('mujoco'); print(*(s.submodule_search_locations if s else []))"
      WORKING_DIRECTORY /
      OUTPUT_VARIABLE _mujoco_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_mujoco_package)
      list(APPEND _mujoco_roots "${_mujoco_package}")
    endif()
  endif()
endif()

# the first folder that has both the headers and the library
unset(MuJoCo_INCLUDE_DIR)
unset(MuJoCo_LIBRARY)
foreach(_root IN LISTS _mujoco_roots)
  file(GLOB _libraries "${_root}/libmujoco.so*" "${_root}/lib/libmujoco.so*" "${_root}/libmujoco*.dylib"
       "${_root}/lib/libmujoco*.dylib")
  if(_libraries AND EXISTS "${_root}/include/mujoco/mujoco.h")
    list(SORT _libraries)
    list(GET _libraries -1 MuJoCo_LIBRARY)
    set(MuJoCo_INCLUDE_DIR "${_root}/include")
    set(MuJoCo_ROOT_DIR "${_root}")
    break()
  endif()
endforeach()

unset(MuJoCo_VERSION)
if(MuJoCo_INCLUDE_DIR)
  file(STRINGS "${MuJoCo_INCLUDE_DIR}/mujoco/mujoco.h" _line REGEX "define mjVERSION_HEADER")
  string(REGEX MATCH "[0-9]+$" _number "${_line}")
  if(_number)
    math(EXPR _major "${_number} / 1000000")
    math(EXPR _minor "${_number} / 1000 % 1000")
    math(EXPR _patch "${_number} % 1000")
    set(MuJoCo_VERSION "${_major}.${_minor}.${_patch}")
  endif()
endif()

string(REPLACE ";" ", " _mujoco_looked "${_mujoco_roots}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  MuJoCo REQUIRED_VARS MuJoCo_LIBRARY MuJoCo_INCLUDE_DIR VERSION_VAR MuJoCo_VERSION
  REASON_FAILURE_MESSAGE
    "run: python3 -m pip install mujoco==4.0.0 (and pass -DPython_EXECUTABLE=<that python>), or pass -DMUJOCO_ROOT=<folder with include/mujoco and libmujoco> (looked in: ${_mujoco_looked})")

if(MuJoCo_FOUND AND NOT TARGET MuJoCo::mujoco)
  add_library(MuJoCo::mujoco SHARED IMPORTED)
  set_target_properties(
    MuJoCo::mujoco PROPERTIES IMPORTED_LOCATION "${MuJoCo_LIBRARY}"
                              INTERFACE_INCLUDE_DIRECTORIES "${MuJoCo_INCLUDE_DIR}")
endif()
