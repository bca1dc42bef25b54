# What `cmake --install` and the wheel carry: libraries, headers and a package for find_package(canter).
# In a wheel (SKBUILD) the prefix is the Python package itself, <site-packages>/canter.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(libraries_dir ${CMAKE_INSTALL_LIBDIR})
if(SKBUILD)
  set(libraries_dir lib)
endif()
set(config_dir share/cmake/canter)

# what a program finds at run time without LD_LIBRARY_PATH
cmake_path(GET MuJoCo_LIBRARY PARENT_PATH mujoco_dir)
cmake_path(GET TBB_LIBRARY PARENT_PATH tbb_dir)
if(SKBUILD)
  # beside us in site-packages; the `tbb` package puts its library into <environment>/lib
  set(library_rpath "$ORIGIN;$ORIGIN/../../mujoco;$ORIGIN/../../torch/lib;$ORIGIN/../../../..")
else()
  set(library_rpath "$ORIGIN;${mujoco_dir}")
  if(NOT tbb_dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND library_rpath "${tbb_dir}")
  endif()
  if(TARGET canter_torch)
    list(APPEND library_rpath "${canter_torch_root}/lib")
  endif()
endif()
set_target_properties(${canter_targets} PROPERTIES INSTALL_RPATH "${library_rpath}"
                      INSTALL_RPATH_USE_LINK_PATH OFF)
if(NOT SKBUILD)
  # a wheel cannot hold symbolic links
  set_target_properties(${canter_targets} PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()

# one export for each component: a program that only acts needs neither MuJoCo nor LibTorch
foreach(target IN LISTS canter_targets)
  string(REPLACE canter_ "" short ${target})
  install(TARGETS ${target} EXPORT canter-${short} LIBRARY DESTINATION ${libraries_dir}
          ARCHIVE DESTINATION ${libraries_dir} INCLUDES DESTINATION include)
  install(EXPORT canter-${short} NAMESPACE canter:: DESTINATION ${config_dir})
endforeach()
if(TARGET canter_torch)
  install(DIRECTORY include/canter DESTINATION include)
else()
  install(DIRECTORY include/canter DESTINATION include PATTERN torch_policy.hpp EXCLUDE)
endif()

# where things were at build time is a hint for this machine; a wheel goes to others
set(mujoco_hint "")
set(torch_hint "")
if(NOT SKBUILD)
  set(mujoco_hint "${MuJoCo_ROOT_DIR}")
  set(torch_hint "${canter_torch_root}")
endif()
configure_package_config_file(cmake/canter-config.cmake.in ${PROJECT_BINARY_DIR}/canter-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/canter-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/canter-config.cmake ${PROJECT_BINARY_DIR}/canter-config-version.cmake
              cmake/FindMuJoCo.cmake DESTINATION ${config_dir})

# the Python modules belong to the wheel only
foreach(module _core _torch)
  if(SKBUILD AND TARGET ${module})
    set_target_properties(${module} PROPERTIES INSTALL_RPATH "$ORIGIN/lib;$ORIGIN/../torch/lib;$ORIGIN/../mujoco"
                          INSTALL_RPATH_USE_LINK_PATH OFF)
    install(TARGETS ${module} LIBRARY DESTINATION .)
  endif()
endforeach()
